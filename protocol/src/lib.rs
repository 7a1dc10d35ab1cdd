//! JSON-RPC over stdio, and the surface of the Agent Client Protocol. Knows no agent, no files and no model.
//!
//! [`Transport`] moves bytes, [`serve`] answers requests from a table of [`Routes`], [`Peer`] is the client. What this
//! crate promises (each has a test of that name):
//!
//! * **I1** Only the writer touches stdout, and each line is one JSON-RPC object: [`Stdio::take`] moves fd 1 away first.
//! * **I2** Each request gets exactly one response, also on panic, cancel and shutdown.
//! * **I3** The reader never waits for the writer or a handler (unless 1024 answers wait for a client that does not read).
//! * **I4** Frames leave in the order in which they were queued.
//! * **I5** What a handler sent precedes its response. Requests are admitted in arrival order ([`Admit`]), and a cancel
//!   covers all that was admitted before it.
//! * **I6** What [`Call::after_response`] sends follows the response.
//! * **I7** In-order methods take effect in arrival order.
//! * **I8** Nothing is sent that the client did not advertise ([`Caps`]).

/// The types of ACP v1, schema 1.20.0.
pub use agent_client_protocol_schema::v1 as acp;
pub use agent_client_protocol_schema::{MaybeUndefined, ProtocolVersion};
pub use jsonrpsee::core::RegisterMethodError;

mod call;
mod caps;
pub mod error;
pub mod frame;
mod inflight;
mod lines;
mod outbox;
mod oversize;
mod peer;
mod respond;
mod routes;
mod serve;
#[cfg_attr(windows, path = "stdio/windows.rs")]
mod stdio;
mod trace;
mod transport;

pub use call::Call;
pub use caps::{Caps, Client};
pub use error::{Closed, PeerError, RpcError, invalid_params, parse_params};
pub use peer::Peer;
pub use routes::Routes;
pub use serve::{Admit, End, Options, serve};
pub use stdio::Stdio;
pub use trace::Trace;
pub use transport::Transport;

#[cfg(test)]
mod tests {
    use crate::acp;

    #[test]
    fn the_readme_lists_every_stable_method() {
        let readme = include_str!("../README.md");
        let (_, tables) = readme.split_once("## Methods").unwrap();
        let (agent, client) = tables.split_once("From the agent to the client:").unwrap();
        let (client, _) = client.split_once("## The wire").unwrap();
        let rows = |text: &str| -> Vec<String> {
            let mut names: Vec<_> = text
                .lines()
                .filter_map(|l| Some(l.strip_prefix("| `")?.split('`').next()?.to_owned()))
                .collect();
            names.sort();
            names
        };
        let of = |names: serde_json::Value| -> Vec<String> {
            let names = names.as_object().unwrap().values().map(|v| v.as_str().unwrap().to_owned());
            let mut names: Vec<_> =
                names.chain([acp::PROTOCOL_LEVEL_METHOD_NAMES.cancel_request.to_owned()]).collect();
            names.sort();
            names
        };
        assert_eq!(rows(agent), of(serde_json::to_value(acp::AGENT_METHOD_NAMES).unwrap()));
        assert_eq!(rows(client), of(serde_json::to_value(acp::CLIENT_METHOD_NAMES).unwrap()));
    }
}
