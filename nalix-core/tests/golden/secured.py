"""Computes secured.txt from docs/protocol.md and the standards that it names. Shares no code with the library.

    python3 secured.py > secured.txt

X25519 is RFC 7748, ChaCha20-Poly1305 is RFC 8439, AES is FIPS 197, GCM is NIST SP 800-38D, BLAKE2s is RFC 7693 (from
Python's own library), Bech32m is BIP 350, and Noise is the Noise Protocol Framework, revision 34. Nothing here runs in
constant time: it is for test keys only.
"""

import hashlib
import hmac

# --- X25519 ---

P = 2**255 - 19


def x25519(private, point):
    k = int.from_bytes(private, "little") & ~7 & ~(1 << 255) | 1 << 254
    x1 = (int.from_bytes(point, "little") & (1 << 255) - 1) % P
    x2, z2, x3, z3 = 1, 0, x1, 1
    for i in reversed(range(255)):
        bit = k >> i & 1
        if bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a, b * b, d * a, c * b
        e = aa - bb
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        if bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def public(private):
    return x25519(private, (9).to_bytes(32, "little"))


# --- ChaCha20-Poly1305 ---


def chacha20_block(key, counter, nonce):
    def words(data):
        return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]

    start = words(b"expand 32-byte k" + key) + [counter] + words(nonce)
    s = start[:]
    for _ in range(10):
        for a, b, c, d in (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15), \
                          (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14):
            for x, y, z, left in (a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7):
                s[x] = s[x] + s[y] & 0xFFFFFFFF
                s[z] ^= s[x]
                s[z] = (s[z] << left | s[z] >> 32 - left) & 0xFFFFFFFF
    return b"".join((a + b & 0xFFFFFFFF).to_bytes(4, "little") for a, b in zip(s, start))


def poly1305(key, data):
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    sum = 0
    for i in range(0, len(data), 16):
        sum = (sum + int.from_bytes(data[i : i + 16] + b"\1", "little")) * r % (2**130 - 5)
    return (sum + int.from_bytes(key[16:], "little") & (1 << 128) - 1).to_bytes(16, "little")


def chacha20_poly1305(key, nonce, ad, plain):
    stream = b"".join(chacha20_block(key, 1 + i, nonce) for i in range(len(plain) // 64 + 1))
    data = bytes(a ^ b for a, b in zip(plain, stream))

    def padded(part):
        return part + bytes(-len(part) % 16)

    lengths = len(ad).to_bytes(8, "little") + len(data).to_bytes(8, "little")
    return data + poly1305(chacha20_block(key, 0, nonce)[:32], padded(ad) + padded(data) + lengths)


# --- AES-256-GCM ---


def times_x(a):
    return a << 1 ^ (0x11B if a & 0x80 else 0)


def make_sbox():
    """Inverses in GF(2^8), by powers of the generator 3, and the affine map."""
    sbox, a, b = {0: 0x63}, 1, 1
    for _ in range(255):
        s = b ^ b << 1 ^ b << 2 ^ b << 3 ^ b << 4
        sbox[a] = (s ^ s >> 8) & 0xFF ^ 0x63
        a = a ^ times_x(a)  # times 3
        for shift in 1, 2, 4:  # divided by 3
            b = (b ^ b << shift) & 0xFF
        b ^= 0x09 if b & 0x80 else 0
    return sbox


SBOX = make_sbox()


def aes256_block(key, block):
    words = [list(key[i : i + 4]) for i in range(0, 32, 4)]
    constant = 1
    for i in range(8, 60):
        word = words[-1]
        if i % 8 == 0:
            word = [SBOX[byte] for byte in word[1:] + word[:1]]
            word[0] ^= constant
            constant = times_x(constant)
        elif i % 8 == 4:
            word = [SBOX[byte] for byte in word]
        words.append([a ^ b for a, b in zip(words[-8], word)])
    keys = [sum(words[i : i + 4], []) for i in range(0, 60, 4)]

    state = [a ^ b for a, b in zip(block, keys[0])]
    for round in range(1, 15):
        state = [SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]  # SubBytes, ShiftRows
        if round < 14:  # MixColumns
            mixed = []
            for i in range(16):
                a, b, c, d = (state[i // 4 * 4 + (i + j) % 4] for j in range(4))
                mixed.append(times_x(a) ^ times_x(b) ^ b ^ c ^ d)
            state = mixed
        state = [a ^ b for a, b in zip(state, keys[round])]
    return bytes(state)


def aes_256_gcm(key, nonce, ad, plain):
    def stream(counter):
        return aes256_block(key, nonce + counter.to_bytes(4, "big"))

    blocks = b"".join(stream(2 + i) for i in range(len(plain) // 16 + 1))
    data = bytes(a ^ b for a, b in zip(plain, blocks))

    def padded(part):
        return part + bytes(-len(part) % 16)

    lengths = (8 * len(ad)).to_bytes(8, "big") + (8 * len(data)).to_bytes(8, "big")
    hashed, h, tag = padded(ad) + padded(data) + lengths, int.from_bytes(aes256_block(key, bytes(16)), "big"), 0
    for i in range(0, len(hashed), 16):
        x, v, tag = tag ^ int.from_bytes(hashed[i : i + 16], "big"), h, 0
        for bit in reversed(range(128)):  # in GCM's order, the highest bit stands for 1
            tag ^= v if x >> bit & 1 else 0
            v = v >> 1 ^ (0xE1 << 120 if v & 1 else 0)
    return data + (tag ^ int.from_bytes(stream(1), "big")).to_bytes(16, "big")


# --- Either of them with a count ---


def seal(key, counter, ad, plain, cipher=chacha20_poly1305):
    """ENCRYPT(k, n, ad, plaintext) of Noise, with the nonce of section 12.3 for both."""
    return cipher(key, bytes(4) + counter.to_bytes(8, "little"), ad, plain)


def rekey(key, cipher=chacha20_poly1305):
    """REKEY(k) of Noise, section 4.2."""
    return seal(key, 2**64 - 1, b"", bytes(32), cipher)[:32]


# --- Noise, section 5: one party's sight of a handshake, seen from above, with the keys of both ---


def hash(data):
    return hashlib.blake2s(data).digest()


def mac(key, data):
    return hmac.new(key, data, hashlib.blake2s).digest()


def hkdf(chaining_key, data, outputs):
    temp, out = mac(chaining_key, data), [b""]
    for i in range(outputs):
        out.append(mac(temp, out[-1] + bytes([i + 1])))
    return out[1:]


class Noise:
    def __init__(self, pattern, prologue, **keys):
        """Keys by name: `e`, `s` of the initiator, `re`, `rs` of the responder (private), `psk`."""
        self.h = self.ck = f"Noise_{pattern}_25519_ChaChaPoly_BLAKE2s".encode().ljust(32, b"\0")
        if len(self.h) > 32:
            self.h = self.ck = hash(self.h)
        self.k, self.n, self.keys, self.pattern = None, 0, keys, pattern
        self.mix_hash(prologue)
        if pattern in ("NK", "IK"):
            self.mix_hash(public(keys["rs"]))

    def mix_hash(self, data):
        self.h = hash(self.h + data)

    def mix_key(self, data):
        self.ck, self.k = hkdf(self.ck, data, 2)
        self.n = 0

    def mix_key_and_hash(self, data):
        self.ck, temp, self.k = hkdf(self.ck, data, 3)
        self.mix_hash(temp)
        self.n = 0

    def encrypt_and_hash(self, plain):
        data = plain
        if self.k is not None:
            data = seal(self.k, self.n, self.h, plain)
            self.n += 1
        self.mix_hash(data)
        return data

    def message(self, tokens, payload):
        out, keys = b"", self.keys
        for token in tokens.split():
            if token in ("e", "re"):
                out += public(keys[token])
                self.mix_hash(public(keys[token]))
                if "psk" in keys:
                    self.mix_key(public(keys[token]))
            elif token == "s":
                out += self.encrypt_and_hash(public(keys["s"]))
            elif token == "psk":
                self.mix_key_and_hash(keys["psk"])
            else:  # two letters: the initiator's key, the responder's key
                self.mix_key(x25519(keys[token[0]], public(keys["r" + token[1]])))
        return out + self.encrypt_and_hash(payload)

    def first(self, payload):
        return self.message({"NK": "e es", "IK": "e es s ss", "NNpsk0": "psk e"}[self.pattern], payload)

    def second(self, payload):
        return self.message({"NK": "re ee", "IK": "re ee se", "NNpsk0": "re ee"}[self.pattern], payload)

    def split(self):
        return hkdf(self.ck, b"", 2)


# --- docs/protocol.md ---


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def record(kind, body):
    return bytes([kind]) + len(body).to_bytes(3, "little") + body


def sealed(key, counter, frames, cipher=chacha20_poly1305):
    head = bytes([4]) + (len(frames) + 16).to_bytes(3, "little")
    return head + seal(key, counter, head, frames, cipher)


def key_text(prefix, key):
    """Bech32m."""

    def checksum(symbols):
        sum = 1
        for symbol in symbols:
            top, sum = sum >> 25, (sum & 0x1FFFFFF) << 5 ^ symbol
            for i, generator in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
                sum ^= generator if top >> i & 1 else 0
        return sum

    bits = "".join(f"{byte:08b}" for byte in key) + "0000"
    symbols = [int(bits[i : i + 5], 2) for i in range(0, 260, 5)]
    expanded = [ord(c) >> 5 for c in prefix] + [0] + [ord(c) & 31 for c in prefix]
    sum = checksum(expanded + symbols + [0] * 6) ^ 0x2BC830A3
    symbols += [sum >> 5 * (5 - i) & 31 for i in range(6)]
    return prefix + "1" + "".join("qpzry9x8gf2tvdw0s3jn54khce6mua7l"[symbol] for symbol in symbols)


ALL = 2
CHACHA, AES = 1, 2
LIMITS = (2**20).to_bytes(4, "little") + (1024).to_bytes(4, "little")
# The packets of frames.txt, and Ping { message: "hi!" } answered by Pong { message: "hi!" }, as the first call.
PACKETS = bytes.fromhex("02 0110 15141ea42ad50f1f 0130 f0ade9ed2a0daae4")
REQUEST = bytes.fromhex("02 00 0110 04 03686921")
REPLY = bytes.fromhex("03 00 04 03686921")
READY = bytes.fromhex("0c 01 02")
PING = bytes.fromhex("09 04 01020304")
RECORDS_PER_KEY = 2**20


def offer(suites, early):
    return LIMITS + bytes([ALL, suites]) + PACKETS + varint(len(early)) + early


def answer(suite, ticket):
    lifetime = (3600).to_bytes(4, "little")
    return b"\1" + LIMITS + bytes([ALL, suite]) + b"\0" + (b"\1" + ticket + lifetime if ticket else b"\0")


def line(name, words, value):
    print(f"{name:6} | {words:36} | {value if isinstance(value, str) else value.hex(' ')}")


def handshake(pattern, way, name=None, suites=CHACHA, suite=CHACHA, early=b"", ticket=None, **keys):
    """Prints a handshake and returns the keys that it ends in: the client's, the server's, and the resumption secret."""
    name = name or pattern
    for key, words in {
        "psk": "resumption secret of before",
        "e": "client's ephemeral private key",
        "re": "server's ephemeral private key",
    }.items():
        if key in keys:
            line(name, words, keys[key])
    prologue = b"nalix\1\1" + way
    noise = Noise(pattern, prologue, **keys)
    ours, theirs = offer(suites, early), answer(suite, ticket)
    line(name, "prologue", prologue)
    line(name, "offer", ours)
    line(name, "Hello", record(1, prologue + noise.first(ours)))
    line(name, "answer", theirs)
    line(name, "HelloReply", record(2, b"\1" + noise.second(theirs)))
    client, server = noise.split()
    resumption = mac(client + server, b"nalix resumption v1" + noise.h)
    line(name, "handshake hash", noise.h)
    line(name, "client's sealing key", client)
    line(name, "server's sealing key", server)
    line(name, "resumption secret", resumption)
    return client, server, resumption


def main():
    print(HEAD)
    names = ["server", "client"] + [f"ephemeral {i}" for i in range(1, 9)]
    server, client, *ephemeral = (hash(b"nalix test key: " + name.encode()) for name in names)
    tickets = [hash(b"nalix test ticket: " + n)[:16] for n in (b"1", b"2")]
    for name, key in ("server", server), ("client", client):
        line("key", f"{name}, private", key)
        line("text", f"{name}, private", key_text("nalixsecret", key))
        line("key", f"{name}, public", public(key))
        line("text", f"{name}, public", key_text("nalix", public(key)))

    print("\n# A client without a key; the server keeps no sessions.")
    ours, theirs, _ = handshake("NK", b"\1", e=ephemeral[0], re=ephemeral[1], rs=server)
    line("NK", "client's record 0: ready", sealed(ours, 0, READY))
    line("NK", "client's record 1: request", sealed(ours, 1, REQUEST))
    line("NK", "server's record 0: reply", sealed(theirs, 0, REPLY))
    line("NK", "client's record 1048575: ping", sealed(ours, RECORDS_PER_KEY - 1, PING))
    line("NK", "client's next key", rekey(ours))
    line("NK", "client's record 1048576: ping", sealed(rekey(ours), RECORDS_PER_KEY, PING))

    print("\n# A client with a key; the server hands out a ticket.")
    ours, theirs, secret = handshake(
        "IK", b"\2", e=ephemeral[2], re=ephemeral[3], s=client, rs=server, ticket=tickets[0]
    )
    line("IK", "client's record 0: ready, request", sealed(ours, 0, READY + REQUEST))
    line("IK", "server's record 0: reply", sealed(theirs, 0, REPLY))

    print("\n# The same client comes back with the ticket; a request goes along, and there is another ticket.")
    ours, theirs, _ = handshake(
        "NNpsk0", b"\3" + tickets[0], early=REQUEST, ticket=tickets[1], psk=secret, e=ephemeral[4], re=ephemeral[5]
    )
    line("NNpsk0", "server's record 0: reply", sealed(theirs, 0, REPLY))
    line("NNpsk0", "client's record 0: ping", sealed(ours, 0, PING))

    print("\n# A client without a key once more; both have AES-256-GCM.")
    keys = {"e": ephemeral[6], "re": ephemeral[7], "rs": server}
    ours, theirs, _ = handshake("NK", b"\1", name="AES", suites=CHACHA | AES, suite=AES, **keys)
    line("AES", "client's record 0: ready, request", sealed(ours, 0, READY + REQUEST, aes_256_gcm))
    line("AES", "server's record 0: reply", sealed(theirs, 0, REPLY, aes_256_gcm))
    line("AES", "client's record 1048575: ping", sealed(ours, RECORDS_PER_KEY - 1, PING, aes_256_gcm))
    line("AES", "client's next key", rekey(ours, aes_256_gcm))
    line("AES", "client's record 1048576: ping", sealed(rekey(ours, aes_256_gcm), RECORDS_PER_KEY, PING, aes_256_gcm))


HEAD = """\
# Golden bytes of secured connections: name | meaning | bytes in hex, or text. Computed by secured.py from docs/protocol.md.
# Both sides as in frames.txt: messages of 1 MiB, 1,024 calls, version 1, the packets Ping and Moved; everything is sealed,
# with ChaCha20-Poly1305 where nothing else is said.
# Lines are added, never changed.

# The static keys of all that follows."""

if __name__ == "__main__":
    main()
