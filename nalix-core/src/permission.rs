//! What a peer may do, as one number.

use std::fmt;

/// How much a peer may do: a level that is compared with the one a handler asks for.
///
/// A connection starts with [`NONE`](Permission::NONE). Whoever has found out who the peer is, such as the handler of a login
/// packet, raises it with [`Connection::set_permission`](crate::Connection::set_permission). The named levels leave room for
/// others between them.
///
/// ```
/// use nalix_core::Permission;
///
/// const MODERATOR: Permission = Permission::new(150);
/// assert!(Permission::USER < MODERATOR && MODERATOR < Permission::OWNER);
/// assert_eq!(MODERATOR.to_string(), "150");
/// assert_eq!(format!("{:?}", Permission::USER), "USER (100)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Permission(u8);

impl Permission {
    /// Nothing is known of the peer.
    pub const NONE: Permission = Permission(0);
    /// It has come in without an account.
    pub const GUEST: Permission = Permission(25);
    /// It may look and not change.
    pub const READ_ONLY: Permission = Permission(50);
    /// It has an account.
    pub const USER: Permission = Permission(100);
    /// It looks after users.
    pub const SUPERVISOR: Permission = Permission(175);
    /// It runs one tenant of the system.
    pub const TENANT_ADMINISTRATOR: Permission = Permission(200);
    /// It runs the system.
    pub const SYSTEM_ADMINISTRATOR: Permission = Permission(225);
    /// It may do everything.
    pub const OWNER: Permission = Permission(255);

    /// A level.
    pub const fn new(level: u8) -> Self {
        Self(level)
    }

    /// Its number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The higher of two levels.
    pub(crate) const fn max_of(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if a.0 < b.0 { b } else { a }),
            (Some(a), None) => Some(a),
            (None, b) => b,
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Permission::NONE => "NONE",
            Permission::GUEST => "GUEST",
            Permission::READ_ONLY => "READ_ONLY",
            Permission::USER => "USER",
            Permission::SUPERVISOR => "SUPERVISOR",
            Permission::TENANT_ADMINISTRATOR => "TENANT_ADMINISTRATOR",
            Permission::SYSTEM_ADMINISTRATOR => "SYSTEM_ADMINISTRATOR",
            Permission::OWNER => "OWNER",
            other => return write!(f, "Permission({})", other.0),
        };
        write!(f, "{name} ({})", self.0)
    }
}
