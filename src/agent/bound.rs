//! Tool results are bounded; what does not fit is spilled to the session folder, where `read` finds it.
use crate::{id::CallId, workspace::Workspace};

/// Bounds the text of a result to about `limit` bytes: its head and its tail, with a line between that says how much
/// is left out and where the whole is.
pub async fn bound(workspace: &dyn Workspace, call: &CallId, text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    // Cut at line ends where that costs little: a last line may be longer than all that there is room for.
    let little = limit / 16;
    let head_end = text.floor_char_boundary(limit * 2 / 3);
    let line = text[..head_end].rfind('\n').map_or(0, |i| i + 1);
    let head_end = if head_end - line <= little { line } else { head_end };
    let tail_start = text.ceil_char_boundary(text.len() - limit / 4);
    let line = text[tail_start..].find('\n').map_or(text.len(), |i| tail_start + i + 1);
    let tail_start = if line - tail_start <= little { line } else { tail_start }.max(head_end);
    let left_out = tail_start - head_end;
    let whole = match workspace.spill(call.as_str(), &text).await {
        Ok(path) => format!("the whole result is in {}: `read` it with `offset` and `limit`", path.display()),
        Err(e) => format!("the whole result could not be saved: {e}"),
    };
    format!("{}\n[… {left_out} bytes left out here; {whole} …]\n{}", &text[..head_end], &text[tail_start..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fake::Fake;

    #[tokio::test]
    async fn the_end_is_kept_however_long_its_line_is() {
        let call = CallId::from("c");
        let ws = Fake::new();
        let long = format!("first\n{}END", "x".repeat(5_000));
        let cut = bound(&ws, &call, long, 1_000).await;
        assert!(cut.starts_with("first\nxxx") && cut.ends_with("xEND") && cut.len() > 900, "{cut}");
        let lines: String = (0..500).map(|n| format!("line {n}\n")).collect();
        let cut = bound(&ws, &CallId::from("d"), lines, 1_000).await;
        let whole = |l: &str| l.starts_with("line ") || l.starts_with("[…");
        assert!(cut.lines().all(|l| whole(l) || l.is_empty()) && cut.ends_with("line 499\n"), "{cut}");
    }
}
