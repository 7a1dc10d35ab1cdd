//! The modes of a session.
use serde::{Deserialize, Serialize};

/// How much is allowed without a question; see the policy table in `permit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    #[default]
    Ask,
    AcceptEdits,
    Plan,
    Full,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::Ask, Mode::AcceptEdits, Mode::Plan, Mode::Full];
    pub fn id(self) -> &'static str {
        match self {
            Mode::Ask => "ask",
            Mode::AcceptEdits => "accept-edits",
            Mode::Plan => "plan",
            Mode::Full => "full",
        }
    }
    pub fn from_id(id: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|m| m.id() == id)
    }
    pub fn name(self) -> &'static str {
        match self {
            Mode::Ask => "Ask",
            Mode::AcceptEdits => "Accept edits",
            Mode::Plan => "Plan",
            Mode::Full => "Full",
        }
    }
    pub fn description(self) -> &'static str {
        match self {
            Mode::Ask => "Asks before every change and every command that is not proven read-only",
            Mode::AcceptEdits => "Edits files in the workspace without asking; asks before commands",
            Mode::Plan => "Reads and plans; changes nothing",
            Mode::Full => "Edits and runs commands without asking; still asks before destructive ones",
        }
    }
}
