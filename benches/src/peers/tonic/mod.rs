//! tonic over HTTP/2, in the clear or under TLS, as its generated code would use it; written by hand because `protoc`
//! isn't needed then.

mod duplex;
mod messages;
mod service;
mod unary;

use ::tonic::transport::{
    Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig, server::TcpIncoming,
};

pub(crate) use self::{
    duplex::{Duplex, DuplexTls},
    unary::{Unary, UnaryTls},
};
use crate::{
    Error,
    case::{LARGE, Work},
    load::Ready,
    target::Target,
};

async fn serve(mut ready: Ready, tls: bool) -> Result<(), Error> {
    let mut server = Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW);
    if tls {
        // The certificate vouches for itself: its clients know it and no other.
        let own = rcgen::generate_simple_self_signed([HOST.into()])?;
        let certificate = own.cert.pem();
        server = server.tls_config(
            ServerTlsConfig::new()
                .identity(Identity::from_pem(&certificate, own.signing_key.serialize_pem())),
        )?;
        ready = ready.trusted_by(certificate);
    }
    let incoming = TcpIncoming::from(ready.bind().await?).with_nodelay(Some(true));
    server.add_service(service::Bench).serve_with_incoming(incoming).await?;
    Ok(())
}

async fn connect(target: &Target, work: Work, tls: bool) -> Result<Channel, Error> {
    // What a client reads is limited by its own settings.
    let stream_window = if matches!(work, Work::Streams { .. }) { ITEMS_WINDOW } else { STREAM_WINDOW };
    let scheme = if tls { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{}", target.address))?
        .tcp_nodelay(true)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(stream_window);
    if tls {
        let known = Certificate::from_pem(&target.trust);
        endpoint = endpoint.tls_config(ClientTlsConfig::new().ca_certificate(known).domain_name(HOST))?;
    }
    Ok(endpoint.connect().await?)
}

/// Where servers listen, which is what a certificate is made out to.
const HOST: &str = "127.0.0.1";

// Generous, so that tonic is never held up by a setting.
const MAX_STREAMS: u32 = 20_000;
const CONNECTION_WINDOW: u32 = 10 * 1024 * 1024;
const STREAM_WINDOW: u32 = 7 * 1024 * 1024;
/// For streams of items: the default of nalix, and of HTTP/2.
const ITEMS_WINDOW: u32 = 64 * 1024;
/// Room for a large message and what is around its data.
const MAX_MESSAGE: usize = LARGE + (1 << 20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::test::tells_servers_apart;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_called_tls_is_not_answered_in_the_clear_nor_by_another_server() {
        tells_servers_apart::<Unary, UnaryTls>().await;
        tells_servers_apart::<Duplex, DuplexTls>().await;
    }
}
