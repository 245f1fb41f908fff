struct Game;

fn check(builder: &mut nalix_core::controller::RouterBuilder) {
    builder.add(Game);
}

fn main() {}
