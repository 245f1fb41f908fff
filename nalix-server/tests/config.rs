//! Options from files and from the environment.

#![cfg(feature = "serde")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use nalix_client::{ClientOptions, ReconnectOptions};
use nalix_core::config::{Section, from_vars};
use nalix_server::{
    BuildError, Cores, GuardOptions, Options, Sealing, SecurityOptions, Server, ServerOptions, WhenFull,
    link::tcp::ListenOptions, packet, packet_controller, wire::Limits,
};

const EXAMPLE: &str = include_str!("../../docs/nalix.toml");
const DOC: &str = include_str!("../../docs/options.md");

#[test]
fn a_file_sets_what_it_mentions_and_nothing_else() {
    let text = r#"
        max_connections = 1000
        drain_timeout = "5s"
        [connection]
        max_message = "1 MiB"
        outbox = 4096
        compression = false
        request_timeout = "none"
        keep_alive = "250ms"
        [listen]
        dual_stack = false
    "#;
    let options: ServerOptions = toml::from_str(text).unwrap();
    let mut expected = ServerOptions::default();
    (expected.max_connections, expected.drain_timeout) = (1_000, Duration::from_secs(5));
    (expected.connection.max_message, expected.connection.outbox) = (1 << 20, 4_096);
    (expected.connection.compression, expected.connection.request_timeout) = (false, None);
    expected.connection.keep_alive = Some(Duration::from_millis(250));
    expected.listen.dual_stack = false;
    assert_eq!(options, expected);
    let shown = format!("{:?}", Server::builder().configure(options));
    assert!(shown.contains("max_connections: 1000") && shown.contains("outbox: 4096"), "{shown}");
}

#[test]
fn an_unknown_key_is_an_error_that_lists_the_known_ones() {
    let error = toml::from_str::<ServerOptions>("max_conections = 5").unwrap_err().to_string();
    assert!(error.contains("max_conections") && error.contains("max_connections"), "{error}");
    let error = toml::from_str::<ServerOptions>("[connection]\noutboxx = 5").unwrap_err().to_string();
    assert!(error.contains("outboxx") && error.contains("`outbox`"), "{error}");
}

#[test]
fn values_out_of_range_or_of_another_kind_are_errors_that_name_the_option() {
    for (text, option) in [
        ("max_calls = 0", "max_calls"),
        ("max_calls = 65537", "max_calls"),
        ("max_message = \"2 GiB\"", "max_message"),
        ("outbox = -1", "negative"),
        ("outbox = 1.5", "number"),
        ("max_malformed = 4294967296", "max_malformed"),
        ("keep_alive = \"1ms\"", "keep_alive"),
        ("idle_timeout = 5", "unit"),
        ("compression = \"maybe\"", "compression"),
        ("handshake_timeout = \"none\"", "handshake_timeout"),
    ] {
        let error = toml::from_str::<Options>(text).unwrap_err().to_string();
        assert!(error.contains(option), "{text}: {error}");
    }
}

fn vars(vars: &[(&str, &str)]) -> Vec<(String, String)> {
    vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_environment_changes_what_the_file_has_said() {
    let mut options: ServerOptions = toml::from_str("max_connections = 1000\nmax_handshakes = 5").unwrap();
    let set = vars(&[
        ("NALIX_MAX_CONNECTIONS", "7"),
        ("NALIX_CONNECTION__MAX_MESSAGE", "16 KiB"),
        ("NALIX_CONNECTION__KEEP_ALIVE", "none"),
        ("NALIX_LISTEN__SHARED_PORT", "true"),
        ("PATH", "/bin"),
    ]);
    from_vars(&mut options, set).unwrap();
    assert_eq!((options.max_connections, options.max_handshakes), (7, 5));
    assert_eq!((options.connection.max_message, options.connection.keep_alive), (16 << 10, None));
    assert!(options.listen.shared_port);

    for (name, value, says) in [
        ("NALIX_MAX_CONECTIONS", "7", "max_connections"),
        ("NALIX_CONNECTION__OUTBOX", "0", "outbox"),
        ("NALIX_CONNECTION", "0", "group of options"),
        ("NALIX_OUTBOX__X", "0", "outbox"),
        ("NALIX_DRAIN_TIMEOUT", "5", "drain_timeout"),
    ] {
        let error = from_vars(&mut options, vars(&[(name, value)])).unwrap_err().to_string();
        assert!(error.contains(says), "{name}: {error}");
    }
}

/// What can be set in a file is what is documented.
#[test]
fn every_field_of_a_file_is_documented() {
    let documented = |ty: &str| -> Vec<&str> {
        let (_, section) = DOC.split_once(&format!("## `{ty}`\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
    };
    assert_eq!(Options::FIELDS, documented("Options"));
    assert_eq!(ListenOptions::FIELDS, documented("ListenOptions"));
    assert_eq!(ReconnectOptions::FIELDS, documented("ReconnectOptions"));
    assert_eq!(GuardOptions::FIELDS, documented("GuardOptions"));
    assert_eq!(SecurityOptions::FIELDS, documented("SecurityOptions"));
    assert_eq!(Limits::FIELDS, documented("Limits"));
    assert_eq!(ClientOptions::FIELDS, ["connect_timeout", "connection", "reconnect"]);
    let builder = documented("ServerBuilder");
    let groups = ["tcp", "security", "connection", "limits", "listen", "guard"];
    let fields = ServerOptions::FIELDS.iter().filter(|field| !groups.contains(field));
    fields.for_each(|field| assert!(builder.contains(field), "{field}"));
    builder.iter().for_each(|field| assert!(ServerOptions::FIELDS.contains(field), "{field}"));
}

/// The example has every option there is, with its default, except those that have none to show.
#[test]
fn the_example_file_has_every_option_with_its_default() {
    let options: ServerOptions = toml::from_str(EXAMPLE).unwrap();
    let mut expected = ServerOptions::default();
    expected.tcp = vec!["[::]:7777".into()];
    expected.security.identity_file = Some("server.key".into());
    expected.security.sealing = Some(Sealing::All);
    expected.security.ticket_lifetime = Some(Duration::from_secs(3_600));
    assert_eq!(options, expected);

    let table: toml::Table = toml::from_str(EXAMPLE).unwrap();
    let group = |name: &str| table[name].as_table().unwrap();
    for (fields, group) in [
        (ServerOptions::FIELDS, &table),
        (SecurityOptions::FIELDS, group("security")),
        (Options::FIELDS, group("connection")),
        (Limits::FIELDS, group("limits")),
        (ListenOptions::FIELDS, group("listen")),
        (GuardOptions::FIELDS, group("guard")),
    ] {
        fields.iter().for_each(|field| assert!(group.contains_key(*field), "{field}"));
    }
}

/// In the example, each key in turn is misspelt, or has a value of a kind that no option has.
#[test]
fn every_mistake_in_a_file_names_its_key() {
    let (mut keys, mut groups) = (0, 0);
    let lines: Vec<&str> = EXAMPLE.lines().collect();
    let with = |at: usize, line: String| {
        let mut lines = lines.clone();
        lines[at] = &line;
        toml::from_str::<ServerOptions>(&lines.join("\n")).unwrap_err().to_string()
    };
    for (at, line) in lines.iter().enumerate() {
        if let Some((key, value)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            keys += 1;
            let error = with(at, format!("{key}x = {value}"));
            assert!(error.contains(&format!("unknown field `{key}x`")), "{error}");
            // Any text is an address or a path until somebody uses it.
            let wrong = if ["tcp", "identity_file"].contains(&key) { "1" } else { "\"?\"" };
            let error = with(at, format!("{key} = {wrong}"));
            assert!(error.contains(&format!("{key}: ")), "{error}");
        } else if let Some(group) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            groups += 1;
            let error = with(at, format!("[{group}x]"));
            assert!(error.contains(&format!("unknown field `{group}x`")), "{error}");
        }
    }
    assert_eq!(groups, 5);
    assert!(keys > 50, "{keys}");
}

#[test]
fn the_environment_reaches_every_group_of_a_server() {
    let mut options = ServerOptions::default();
    let set = vars(&[
        ("NALIX_TCP", "127.0.0.1:7777, [::1]:7777"),
        ("NALIX_CORES", "4"),
        ("NALIX_WHEN_FULL", "evict_anonymous"),
        ("NALIX_SECURITY__IDENTITY_FILE", "/etc/nalix/server.key"),
        ("NALIX_SECURITY__SEALING", "marked"),
        ("NALIX_SECURITY__TICKET_LIFETIME", "1d"),
        ("NALIX_LIMITS__MAX_DEPTH", "16"),
        ("NALIX_GUARD__TRUSTED_PROXIES", "10.0.0.0/8,2001:db8::/32"),
        ("NALIX_GUARD__BAN_AFTER", "3"),
        ("NALIX_MAX_GROUPS_PER_CONNECTION", "9"),
    ]);
    from_vars(&mut options, set).unwrap();
    let mut expected = ServerOptions::default();
    expected.tcp = vec!["127.0.0.1:7777".into(), "[::1]:7777".into()];
    expected.cores = Cores::Each(4.try_into().unwrap());
    expected.when_full = WhenFull::EvictAnonymous;
    expected.security.identity_file = Some("/etc/nalix/server.key".into());
    expected.security.sealing = Some(Sealing::Marked);
    expected.security.ticket_lifetime = Some(Duration::from_secs(86_400));
    expected.limits.max_depth = 16;
    expected.guard.trusted_proxies = ["10.0.0.0/8", "2001:db8::/32"].map(|net| net.parse().unwrap()).into();
    expected.guard.ban_after = 3;
    expected.max_groups_per_connection = 9;
    assert_eq!(options, expected);

    for (name, value, says) in [
        ("NALIX_CORES", "0", "cores"),
        ("NALIX_CORES", "many", "\"ambient\", \"all\""),
        ("NALIX_WHEN_FULL", "Refuse", "\"refuse\""),
        ("NALIX_SECURITY__SEALING", "none", "sealing"),
        ("NALIX_SECURITY__KEY", "x", "identity_file"),
        ("NALIX_SECURITY__IDENTITY_FILE", "", "identity_file"),
        ("NALIX_GUARD__DENY", "10.0.0.1/8", "10.0.0.0/8"),
        ("NALIX_GUARD__BAN_WINDOW", "366d", "ban_window"),
        ("NALIX_GUARD__MAX_PROXY_HEADER", "106", "107"),
        ("NALIX_LIMITS__MAX_DEPTH", "65536", "max_depth"),
    ] {
        let error = from_vars(&mut options, vars(&[(name, value)])).unwrap_err().to_string();
        assert!(error.contains(says), "{name}: {error}");
    }
}

#[packet(opcode = 0x3e10, reply = u32)]
struct Nested {
    lists: Vec<Vec<Vec<u8>>>,
}

struct Counter;

#[packet_controller]
impl Counter {
    #[packet]
    fn nested(&self, nested: Nested) -> u32 {
        nested.lists.len() as u32
    }
}

/// A folder that is gone when the test is over.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nalix-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[tokio::test]
async fn a_file_alone_says_where_a_server_listens_and_who_it_is() {
    let folder = Folder::new("configured");
    let file = folder.0.join("server.key");
    let text = format!(
        "tcp = [\"127.0.0.1:0\", \"127.0.0.1:0\"]\n[security]\nidentity_file = {file:?}\n[limits]\nmax_depth = 2"
    );
    let options: ServerOptions = toml::from_str(&text).unwrap();
    // The address of the file counts.
    let builder =
        || Server::builder().controller(Counter).tcp("no.such.host.invalid:0").configure(options.clone());
    let server = builder().build().await.unwrap();
    let identity = nalix_server::Identity::load(&file).unwrap();
    assert_eq!(server.local_addrs().len(), 2);
    let address = format!("tcp://{}", server.local_addr());
    let (handle, task) = server.spawn();
    let client = nalix_client::Client::builder(address).server_key(identity.public_key()).no_reconnect();
    let session = client.connect().await.unwrap();
    assert_eq!(session.request(Nested { lists: vec![] }).await, Ok(0));
    let too_deep = session.request(Nested { lists: vec![vec![vec![1]]] }).await.unwrap_err();
    assert!(too_deep.to_string().contains("deep"), "{too_deep}");
    handle.shutdown();
    task.await.unwrap().unwrap();

    // Another start has the same key.
    drop(builder().build().await.unwrap());
    assert_eq!(nalix_server::Identity::load(&file).unwrap().public_key(), identity.public_key());
    std::fs::write(&file, "nonsense").unwrap();
    let error = builder().build().await.map(drop).unwrap_err();
    assert!(matches!(error, BuildError::Identity(_)) && error.to_string().contains("server.key"), "{error}");
}

#[tokio::test]
async fn what_file_and_program_say_of_security_must_not_contradict_each_other() {
    let folder = Folder::new("contradicting");
    let file = folder.0.join("server.key");
    let secured = format!("[security]\nidentity_file = {file:?}");
    let base = || Server::builder().controller(Counter).no_listener();
    let build = async |builder: nalix_server::ServerBuilder, text: &str| {
        builder.configure(toml::from_str(text).unwrap()).build().await.map(drop)
    };
    let identity = nalix_server::Identity::generate().unwrap();
    for (builder, text) in [
        (base().plaintext(), secured.as_str()),
        (base().identity(identity.clone()), secured.as_str()),
        (base().identity(identity), "[security]\nplaintext = true"),
        (base(), "[security]\nplaintext = true\nticket_lifetime = \"1h\""),
    ] {
        let error = build(builder, text).await.unwrap_err();
        assert!(matches!(error, BuildError::Contradiction { .. }), "{text}: {error}");
    }
    assert!(!file.exists(), "a server that does not start makes no key");
    assert!(matches!(build(base(), "max_connections = 1").await, Err(BuildError::Security)));
    build(base(), "[security]\nplaintext = true").await.unwrap();
    build(base().plaintext(), "[security]\nplaintext = false").await.unwrap();
}
