//! jsonrpsee's method table, filled with typed handlers.

use crate::{
    acp,
    call::Call,
    error::{RpcError, parse_params},
};
use jsonrpsee::{Extensions, Methods, RpcModule, core::RegisterMethodError, types::Params};
use serde::{Serialize, de::DeserializeOwned};
use std::sync::Arc;

/// The methods an agent serves, over one context `C`.
///
/// Whether a method is in order or not is a decision: an in-order handler runs to its end before the next line is read,
/// so it may only flip switches; all others run concurrently, after [`Admit`](crate::Admit) saw them in order.
#[derive(Debug)]
pub struct Routes<C> {
    module: RpcModule<C>,
}

impl<C: Send + Sync + 'static> Routes<C> {
    /// No methods yet.
    pub fn new(context: Arc<C>) -> Self {
        Routes { module: RpcModule::from_arc(context) }
    }

    /// A request that takes its time.
    ///
    /// # Errors
    /// Where the name is taken.
    pub fn request<P, R, F, Fut>(
        &mut self,
        name: &'static str,
        handler: F,
    ) -> Result<&mut Self, RegisterMethodError>
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Clone + Send + 'static,
        F: Fn(Arc<C>, P, Call) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<R, acp::Error>> + Send,
    {
        self.module.register_async_method(name, move |params, context, extensions| {
            let handler = handler.clone();
            async move {
                let call = call(&extensions)?;
                // The text is large for a prompt with images: gone before the handler starts.
                let parsed = parse_params(params.as_str())?;
                drop((params, extensions));
                handler(context, parsed, call).await.map_err(RpcError)
            }
        })?;
        Ok(self)
    }

    /// A request that takes effect before the next line is read (I7). Must not block.
    ///
    /// # Errors
    /// Where the name is taken.
    pub fn in_order<P, R, F>(
        &mut self,
        name: &'static str,
        handler: F,
    ) -> Result<&mut Self, RegisterMethodError>
    where
        P: DeserializeOwned,
        R: Serialize + Clone + Send + 'static,
        F: Fn(&C, P, &Call) -> Result<R, acp::Error> + Send + Sync + 'static,
    {
        self.module.register_method(name, move |params, context, extensions| {
            run(&params, extensions, |params, call| handler(context, params, call))
        })?;
        Ok(self)
    }

    /// A notification; takes effect before the next line is read (I7). Must not block. Params that do not fit are
    /// logged and dropped: a notification has no answer.
    ///
    /// # Errors
    /// Where the name is taken.
    pub fn notification<P, F>(
        &mut self,
        name: &'static str,
        handler: F,
    ) -> Result<&mut Self, RegisterMethodError>
    where
        P: DeserializeOwned,
        F: Fn(&C, P, &Call) + Send + Sync + 'static,
    {
        self.module.register_method(name, move |params, context, extensions| {
            let done = run(&params, extensions, |params, call| {
                handler(context, params, call);
                Ok(serde_json::Map::new())
            });
            if let Err(RpcError(error)) = &done {
                tracing::debug!(name, error = error.message, "a notification is dropped");
            }
            done
        })?;
        Ok(self)
    }

    /// The table, for [`serve`](crate::serve).
    pub fn finish(self) -> Methods {
        self.module.into()
    }
}

fn run<P: DeserializeOwned, R>(
    params: &Params<'_>,
    extensions: &Extensions,
    handler: impl FnOnce(P, &Call) -> Result<R, acp::Error>,
) -> Result<R, RpcError> {
    let call = call(extensions)?;
    Ok(handler(parse_params(params.as_str())?, &call)?)
}

fn call(extensions: &Extensions) -> Result<Call, acp::Error> {
    Call::of(extensions).ok_or_else(acp::Error::internal_error)
}
