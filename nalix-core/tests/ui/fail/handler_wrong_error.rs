use nalix_core::{Wire, packet, packet_controller};

#[derive(Wire)]
enum LoginError {
    BadPassword,
}

#[packet(opcode = 0x1001, reply = u8, error = LoginError)]
struct Login;

#[packet(opcode = 0x1002, reply = u8)]
struct Ping;

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn login(&self, _: Login) -> Result<u8, String> {
        Err(String::new())
    }

    #[packet]
    async fn ping(&self, _: Ping) -> Result<u8, LoginError> {
        Err(LoginError::BadPassword)
    }
}

fn main() {}
