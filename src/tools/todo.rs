//! `todo`: the plan, shown by the editor.
use super::{Cx, Output, Tool, ToolError, display};
use crate::{
    effects::Effects,
    log::{PlanItem, PlanStatus, Priority, ToolKind},
    workspace::Reader,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt::Write as _;

/// The most items of a plan.
const ITEMS: usize = 50;
/// The most characters of an item.
const LENGTH: usize = 1000;

/// See the module.
pub struct Todo;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The whole plan, in order.
    #[serde(alias = "items", alias = "plan")]
    todos: Vec<Item>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Item {
    /// What is to be done, in a few words.
    #[serde(alias = "text", alias = "title")]
    content: String,
    #[serde(default)]
    status: PlanStatus,
    #[serde(default)]
    priority: Priority,
}

#[async_trait]
impl Tool for Todo {
    type Args = Args;
    const NAME: &'static str = "todo";
    const KIND: ToolKind = ToolKind::Think;
    const DOC: &'static str = include_str!("todo.md");

    fn title(&self, args: &Args, _: &dyn Reader) -> String {
        match args.todos.iter().find(|i| i.status == PlanStatus::InProgress) {
            Some(now) => format!("Plan: {}", display::one_line(&now.content, 150)),
            None => format!("Plan ({})", display::count(args.todos.len(), "item")),
        }
    }

    async fn plan(&self, args: &Args, _: &dyn Reader) -> Result<Effects, ToolError> {
        if args.todos.len() > ITEMS {
            return Err(ToolError::BadArguments(format!(
                "the plan has {} items; at most {ITEMS} are taken. Join the smaller ones",
                args.todos.len()
            )));
        }
        match args.todos.iter().position(|i| i.content.trim().is_empty()) {
            Some(n) => Err(ToolError::BadArguments(format!("item {} of the plan has no `content`", n + 1))),
            None => Ok(Effects::default()),
        }
    }

    async fn run(&self, args: Args, _: Effects, _: Cx<'_>) -> Result<Output, ToolError> {
        let item = |i: Item| PlanItem {
            content: i.content.trim().chars().take(LENGTH).collect(),
            status: i.status,
            priority: i.priority,
        };
        let items: Vec<PlanItem> = args.todos.into_iter().map(item).collect();
        Ok(Output { plan: Some(items.clone()), ..Output::text(echo(&items)) })
    }
}

fn echo(items: &[PlanItem]) -> String {
    if items.is_empty() {
        return "the plan is empty now".into();
    }
    let mut out = String::new();
    for item in items {
        let mark = match item.status {
            PlanStatus::Pending => ' ',
            PlanStatus::InProgress => '>',
            PlanStatus::Completed => 'x',
        };
        let _ = writeln!(out, "[{mark}] {}", display::one_line(&item.content, 200));
    }
    let running = items.iter().filter(|i| i.status == PlanStatus::InProgress).count();
    let open = items.iter().any(|i| i.status == PlanStatus::Pending);
    match running {
        0 if open => out.push_str("(nothing is in_progress: set the item that you work on)"),
        2.. => out.push_str("(several items are in_progress: keep it at one)"),
        _ => {}
    }
    out.truncate(out.trim_end().len());
    out
}
