//! Background commands.
pub struct Jobs {}
impl Jobs {
    pub async fn close(&self) {}
}
