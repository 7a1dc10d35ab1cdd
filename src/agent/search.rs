//! `session_search`: what was said in earlier sessions. No model is asked.
use crate::{
    effects::Effects,
    log::ToolKind,
    store::{Hit, Search, Store, StoreError},
    tools::{Cx, Output, Tool, ToolError},
    workspace::Reader,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// The tool, for a session in this folder.
pub struct SessionSearch {
    pub store: Store,
    pub folder: PathBuf,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// Words that must all occur; the last one may be the beginning of a word.
    #[serde(alias = "q", alias = "text")]
    query: String,
    /// Search the sessions of all folders, not only of this one. The user is asked. Default false.
    #[serde(default)]
    everywhere: bool,
    /// At most this many places, up to 20. Default 8.
    limit: Option<u32>,
}

#[async_trait]
impl Tool for SessionSearch {
    type Args = Args;
    const NAME: &'static str = "session_search";
    const KIND: ToolKind = ToolKind::Search;
    const DOC: &'static str = include_str!("search.md");

    fn title(&self, args: &Args, _: &dyn Reader) -> String {
        let place = if args.everywhere { "all sessions" } else { "earlier sessions" };
        format!("Search {place} for “{}”", args.query.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    async fn plan(&self, args: &Args, ws: &dyn Reader) -> Result<Effects, ToolError> {
        // What was said in other folders is outside of this one: the gate asks, as for a file out there.
        Ok(match args.everywhere {
            true => Effects::read(ws.resolve(&self.store.file().to_string_lossy())?),
            false => Effects::default(),
        })
    }

    async fn run(&self, args: Args, effects: Effects, cx: Cx<'_>) -> Result<Output, ToolError> {
        let everywhere = args.everywhere && !effects.reads.is_empty();
        let search = Search {
            text: args.query,
            cwd: (!everywhere).then(|| self.folder.clone()),
            limit: args.limit.unwrap_or(8).clamp(1, 20) as usize,
            around: 1,
            ..Search::default()
        };
        let hits = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
            hits = self.store.search(search) => hits,
        };
        match hits {
            Ok(hits) if hits.is_empty() => Ok(Output::text(
                "nothing was found. Fewer or other words may find more; all of them must occur in one message",
            )),
            Ok(hits) => Ok(Output::text(hits.iter().map(told).collect::<Vec<_>>().join("\n"))),
            Err(e @ StoreError::EmptySearch) => Err(ToolError::BadArguments(e.to_string())),
            Err(e) => Err(ToolError::Failed(e.to_string())),
        }
    }
}

/// A hit with its neighbours.
fn told(hit: &Hit) -> String {
    let day = hit.line.at.rfc3339();
    let day = day.get(..10).unwrap_or(&day);
    let title = hit.title.as_deref().unwrap_or("(no title)");
    let mut out = format!("{day} “{title}” in {} ({})\n", hit.cwd.display(), hit.session);
    let lines = hit.before.iter().map(|l| (l, "  ")).chain([(&hit.line, "> ")]);
    for (line, mark) in lines.chain(hit.after.iter().map(|l| (l, "  "))) {
        let text = line.text.split_whitespace().collect::<Vec<_>>().join(" ");
        out.push_str(&format!("{mark}{}: {text}\n", line.role));
    }
    out
}
