//! An identity provider of `OpenID` Connect that says what a test tells it to, true or not. The test is the browser.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use prs_common::timestamp::now_us;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What a server is called there.
pub const CLIENT: &str = "prs at test";
/// The secret of that server.
pub const SECRET: &str = "hush+hush";

/// A provider that runs.
#[derive(Debug)]
pub struct IdentityProvider {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// What it signs with, and what that is called.
    key: Mutex<(String, EcdsaKeyPair)>,
    /// The keys that it tells.
    told: Mutex<Vec<Value>>,
    /// What is claimed in place of what is true: nothing leaves a claim out.
    claims: Mutex<HashMap<String, Option<Value>>>,
    /// Codes that were given and not taken, with the challenge and the nonce of each.
    codes: Mutex<HashMap<String, (String, String)>>,
    asked: Mutex<Vec<String>>,
    is_away: AtomicBool,
    ends: AtomicBool,
}

fn new_key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
        .expect("its own key")
}

/// The public part of a key, as a provider tells it.
fn told(name: &str, key: &EcdsaKeyPair) -> Value {
    let point = key.public_key().as_ref();
    let part = |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(&point[range]);
    json!({ "kty": "EC", "use": "sig", "alg": "ES256", "crv": "P-256", "kid": name, "x": part(1..33), "y": part(33..65) })
}

impl IdentityProvider {
    /// Starts one at a port that is free.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let key = new_key();
        let shared = Arc::new(Shared {
            told: Mutex::new(vec![told("one", &key)]),
            key: Mutex::new(("one".to_owned(), key)),
            claims: Mutex::default(),
            codes: Mutex::default(),
            asked: Mutex::default(),
            is_away: AtomicBool::new(false),
            ends: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if own.ends.load(Ordering::SeqCst) {
                    return;
                }
                // One that is away takes no request, and gives no answer.
                if !own.is_away.load(Ordering::SeqCst) {
                    let _ = own.serve(stream, address);
                }
            }
        });
        Self { address, shared, thread: Some(thread) }
    }

    /// Its address.
    pub fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From here on tokens claim this in place of what is true; nothing leaves the claim out.
    pub fn claim(&self, name: &str, value: Option<Value>) {
        self.shared.claims.lock().expect("no panic").insert(name.to_owned(), value);
    }

    /// From here on tokens claim what is true, and these groups.
    pub fn tell_the_truth(&self, groups: &[&str]) {
        let mut claims = self.shared.claims.lock().expect("no panic");
        claims.clear();
        claims.insert("groups".to_owned(), Some(json!(groups)));
    }

    /// From here on it signs with another key, which it tells or keeps to itself.
    pub fn take_another_key(&self, name: &str, is_told: bool) {
        let key = new_key();
        if is_told {
            *self.shared.told.lock().expect("no panic") = vec![told(name, &key)];
        }
        *self.shared.key.lock().expect("no panic") = (name.to_owned(), key);
    }

    /// From here on it gives no answers, or gives them again.
    pub fn is_away(&self, is_away: bool) {
        self.shared.is_away.store(is_away, Ordering::SeqCst);
    }

    /// How often this path was asked for.
    pub fn asked(&self, path: &str) -> usize {
        self.shared.asked.lock().expect("no panic").iter().filter(|asked| *asked == path).count()
    }

    /// Signs the browser in that was sent here with these parameters; gives the code that it brings back.
    pub fn sign_in(&self, parameters: &HashMap<String, String>) -> String {
        let value = |name: &str| parameters.get(name).cloned().unwrap_or_default();
        assert_eq!((value("response_type"), value("client_id")), ("code".to_owned(), CLIENT.to_owned()));
        assert_eq!(value("code_challenge_method"), "S256");
        assert!(value("scope").split(' ').any(|scope| scope == "openid"), "{parameters:?}");
        let code = format!("code-{}", now_us());
        let asked = (value("code_challenge"), value("nonce"));
        self.shared.codes.lock().expect("no panic").insert(code.clone(), asked);
        code
    }
}

impl Drop for IdentityProvider {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream, address: SocketAddr) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let (mut length, mut authorization) = (0, String::new());
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
                break;
            }
            let (name, value) = header.trim().split_once(':').unwrap_or_default();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap_or(0),
                "authorization" => value.trim().clone_into(&mut authorization),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        self.asked.lock().expect("no panic").push(path.clone());
        let (status, answer) = match path.as_str() {
            "/.well-known/openid-configuration" => (200, metadata(address)),
            "/keys" => (200, json!({ "keys": *self.told.lock().expect("no panic") })),
            "/token" => self.token(&String::from_utf8_lossy(&body), &authorization, address),
            _ => (404, json!({})),
        };
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status} .\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        reader.get_mut().write_all((head + &answer).as_bytes())
    }

    fn token(&self, body: &str, authorization: &str, address: SocketAddr) -> (u16, Value) {
        let refused = |why: &str| (400, json!({ "error": "invalid_grant", "error_description": why }));
        let form = parameters(body);
        let value = |name: &str| form.get(name).cloned().unwrap_or_default();
        let who = authorization.strip_prefix("Basic ").and_then(|text| STANDARD.decode(text).ok());
        let who = String::from_utf8(who.unwrap_or_default()).unwrap_or_default();
        let (client, secret) = who.split_once(':').unwrap_or_default();
        if (decoded(client), decoded(secret)) != (CLIENT.to_owned(), SECRET.to_owned()) {
            return (401, json!({ "error": "invalid_client" }));
        }
        // A code is good once.
        let Some((challenge, nonce)) = self.codes.lock().expect("no panic").remove(&value("code")) else {
            return refused("the code is none, or was taken before");
        };
        if URL_SAFE_NO_PAD.encode(Sha256::digest(value("code_verifier"))) != challenge {
            return refused("the verifier is of another browser");
        }
        let now = now_us() / 1_000_000;
        let mut claims = json!({
            "iss": format!("http://{address}"), "aud": CLIENT, "sub": "0a1b", "exp": now + 300, "iat": now,
            "nonce": nonce, "preferred_username": "ana",
        });
        for (name, value) in &*self.claims.lock().expect("no panic") {
            match value {
                Some(value) => claims[name] = value.clone(),
                None => drop(claims.as_object_mut().map(|claims| claims.remove(name))),
            }
        }
        let token = self.signed(&claims);
        (200, json!({ "access_token": "x", "token_type": "Bearer", "expires_in": 300, "id_token": token }))
    }

    fn signed(&self, claims: &Value) -> String {
        let key = self.key.lock().expect("no panic");
        let head = json!({ "alg": "ES256", "typ": "JWT", "kid": key.0 });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&head), part(claims));
        let signature = key.1.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

fn metadata(address: SocketAddr) -> Value {
    json!({
        "issuer": format!("http://{address}"),
        "authorization_endpoint": format!("http://{address}/authorize"),
        "token_endpoint": format!("http://{address}/token"),
        "jwks_uri": format!("http://{address}/keys"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    })
}

/// What stands in a query or a form.
pub fn parameters(text: &str) -> HashMap<String, String> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((decoded(name), decoded(value)))
    };
    text.split('&').filter_map(pair).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hexadecimal = |digit: Option<u8>| char::from(digit?).to_digit(16);
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (high, low) = (hexadecimal(rest.next()), hexadecimal(rest.next()));
                bytes.extend(high.zip(low).map(|(high, low)| (high * 16 + low) as u8));
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
