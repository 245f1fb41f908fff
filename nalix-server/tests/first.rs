use nalix_client::{Client, RequestError};
use nalix_core::{Context, Failure, Status, Wire, packet, packet_controller};
use nalix_server::Server;
use std::time::Duration;

#[packet(opcode = 0x1001, reply = Pong)]
pub struct Ping {
    pub message: String,
}
#[derive(Debug, PartialEq, Wire)]
pub struct Pong {
    pub message: String,
}
#[packet(opcode = 0x1002, reply = i32)]
pub struct Sum {
    pub a: i32,
    pub b: i32,
}
#[derive(Debug, PartialEq, Wire)]
pub enum LoginError {
    Bad,
    Banned { until: u64 },
}
#[packet(opcode = 0x1003, reply = String, error = LoginError)]
pub struct Login {
    pub user: String,
}
#[packet(opcode = 0x1004, reply = ())]
pub struct Sleep {
    pub ms: u64,
}
#[packet(opcode = 0x1005, reply = String)]
pub struct AskBack {
    pub n: u32,
}
#[packet(opcode = 0x2001, reply = u32)]
pub struct ClientDouble {
    pub n: u32,
}

struct Game;
#[packet_controller]
impl Game {
    #[packet]
    async fn ping(&self, ping: Ping) -> Pong {
        Pong { message: ping.message }
    }
    #[packet]
    fn sum(&self, sum: Sum) -> i32 {
        sum.a + sum.b
    }
    #[packet]
    async fn login(&self, login: Login) -> Result<String, Failure<LoginError>> {
        if login.user == "x" {
            Err(LoginError::Banned { until: 7 })?
        }
        if login.user == "y" {
            Err(Status::not_found("y"))?
        }
        Ok(login.user)
    }
    #[packet]
    async fn sleep(&self, s: Sleep) {
        tokio::time::sleep(Duration::from_millis(s.ms)).await;
    }
    #[packet]
    async fn ask(&self, ctx: &Context, a: AskBack) -> Result<String, Status> {
        let n = ctx.request(ClientDouble { n: a.n }).await.map_err(|e| Status::internal(e.to_string()))?;
        Ok(format!("doubled {n}"))
    }
}
struct Mine;
#[packet_controller]
impl Mine {
    #[packet]
    fn double(&self, d: ClientDouble) -> u32 {
        d.n * 2
    }
}

#[tokio::test]
async fn end_to_end() {
    let server = Server::builder().plaintext().tcp("127.0.0.1:0").controller(Game).build().await.unwrap();
    let addr = server.local_addr();
    let (handle, join) = server.spawn();
    let session =
        Client::builder(format!("tcp://{addr}")).plaintext().controller(Mine).connect().await.unwrap();
    assert_eq!(session.request(Sum { a: 1, b: 2 }).await.unwrap(), 3);
    assert_eq!(session.request(Ping { message: "hi".into() }).await.unwrap(), Pong { message: "hi".into() });
    assert_eq!(
        session.request(Login { user: "x".into() }).await,
        Err(RequestError::Application(LoginError::Banned { until: 7 }))
    );
    assert!(matches!(session.request(Login { user: "y".into() }).await, Err(RequestError::Status(_))));
    assert_eq!(session.request(AskBack { n: 21 }).await.unwrap(), "doubled 42");
    assert!(matches!(
        session.request(Sleep { ms: 5000 }).timeout(Duration::from_millis(20)).await,
        Err(RequestError::Timeout)
    ));
    assert_eq!(session.request(Sum { a: 1, b: 2 }).await.unwrap(), 3);
    assert_eq!(handle.connection_count(), 1);
    let t = std::time::Instant::now();
    let mut set = tokio::task::JoinSet::new();
    for i in 0..10000 {
        let s = session.clone();
        set.spawn(async move { assert_eq!(s.request(Sum { a: i, b: 1 }).await.unwrap(), i + 1) });
    }
    while let Some(r) = set.join_next().await {
        r.unwrap();
    }
    println!("{:?}", t.elapsed());
    handle.shutdown();
    let report = join.await.unwrap().unwrap();
    println!("{report:?} {:?}", session.closed().await);
}
