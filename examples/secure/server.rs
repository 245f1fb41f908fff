//! The server.

use std::collections::HashMap;

use nalix_server::{
    BuildError, Context, Identity, PublicKey, Server, State, Status, packet_controller, store::MemoryStore,
};

use crate::contracts::{Recall, Remember, Whisper, WhoAmI};

/// Whose key is whose.
pub struct Friends {
    pub names: HashMap<PublicKey, String>,
}

struct Notes;

#[packet_controller]
impl Notes {
    #[packet]
    fn who_am_i(&self, ctx: &Context, friends: State<Friends>, _: WhoAmI) -> String {
        match ctx.peer_key() {
            None => "somebody".to_owned(),
            Some(key) => friends.names.get(key).cloned().unwrap_or_else(|| format!("the owner of {key}")),
        }
    }

    #[packet]
    fn whisper(&self, Whisper { secret }: Whisper) -> String {
        format!("{} letters, understood", secret.chars().count())
    }

    #[packet]
    async fn remember(&self, ctx: &Context, Remember { note }: Remember) -> Result<(), Status> {
        let session = ctx.resumption().ok_or_else(|| Status::unavailable("sessions are not kept now"))?;
        session.insert("note", &note).map_err(|error| Status::invalid_argument(error.to_string()))?;
        // It is written in the background. Whoever wants to be sure waits.
        session.saved().await;
        Ok(())
    }

    #[packet]
    fn recall(&self, ctx: &Context, _: Recall) -> Result<Option<String>, Status> {
        let Some(session) = ctx.resumption() else { return Ok(None) };
        session.get("note").map_err(|error| Status::internal(error.to_string()))
    }
}

/// A server that proves to be `identity` and keeps sessions in its memory.
pub async fn build(identity: Identity, friends: Friends) -> Result<Server, BuildError> {
    Server::builder()
        .identity(identity)
        .sessions(MemoryStore::new())
        .tcp("127.0.0.1:0")
        .state(friends)
        .controller(Notes)
        .build()
        .await
}
