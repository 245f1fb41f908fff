//! Being asked to stop.

/// Resolves when the process is asked to stop, by Ctrl-C or, on Unix, by SIGTERM.
pub async fn interrupted() {
    #[cfg(unix)]
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<Option<()>>();
    tokio::select! {
        result = tokio::signal::ctrl_c() => {
            if let Err(error) = result {
                eprintln!("cannot wait for Ctrl-C: {error}");
            }
        }
        _ = terminated => {}
    }
}
