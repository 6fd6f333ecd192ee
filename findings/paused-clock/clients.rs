//! Clients whose server is outside the runtime, and healthy.

use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use crate::own::case;
use crate::{MINUTE, MS, Row, SECOND, at_once, peers};

pub const ROWS: &[Row] = &[
    ("reqwest", "timeout of a request", || case(reqwest())),
    ("redis", "connection timeout", || case(redis_connect())),
    ("redis", "response timeout", || case(redis_response())),
    ("rumqttc", "connection timeout", || case(rumqttc())),
    ("quinn", "idle timeout, in the handshake", || case(quinn())),
    ("async-nats", "connection timeout", || case(nats_connect())),
    (
        "async-nats",
        "timeout of a request",
        || case(nats_request()),
    ),
    (
        "hickory-resolver",
        "timeout of a lookup",
        || case(hickory()),
    ),
    ("tonic", "timeout of a call", || case(tonic())),
];

/// Whether an error, or what caused it, says one of these words.
fn says(error: &(dyn Error + 'static), words: &[&str]) -> Result<(), String> {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let text: Vec<_> = causes
        .map(|error| error.to_string().to_lowercase())
        .collect();
    let text = text.join(": ");
    match words.iter().any(|word| text.contains(word)) {
        true => Ok(()),
        false => Err(text),
    }
}

async fn reqwest() -> String {
    let url = format!("http://127.0.0.1:{}/", peers::http());
    let client = reqwest::Client::builder().timeout(MINUTE).build().unwrap();
    at_once(MINUTE, async {
        match client.get(url).send().await {
            Err(error) if error.is_timeout() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

fn redis_client() -> redis::Client {
    redis::Client::open(format!("redis://127.0.0.1:{}/", peers::redis())).unwrap()
}

fn redis_config() -> redis::AsyncConnectionConfig {
    redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(MINUTE))
        .set_response_timeout(Some(MINUTE))
}

async fn redis_connect() -> String {
    let client = redis_client();
    at_once(MINUTE, async {
        match client
            .get_multiplexed_async_connection_with_config(&redis_config())
            .await
        {
            Err(error) if error.is_timeout() => Ok(()),
            other => Err(format!("{:?}", other.err())),
        }
    })
    .await
}

async fn redis_response() -> String {
    let client = redis_client();
    tokio::time::resume();
    let config = redis_config();
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    let mut connection = connection.await.unwrap();
    tokio::time::pause();
    at_once(MINUTE, async {
        match redis::cmd("PING")
            .query_async::<String>(&mut connection)
            .await
        {
            Err(error) if error.is_timeout() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

async fn rumqttc() -> String {
    let options = rumqttc::MqttOptions::new("client", "127.0.0.1", peers::mqtt());
    let (_client, mut events) = rumqttc::AsyncClient::new(options, 10);
    at_once(5 * SECOND, async {
        match events.poll().await {
            Err(rumqttc::ConnectionError::NetworkTimeout) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

async fn quinn() -> String {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = key.cert.der().clone();
    let private = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let server = quinn::ServerConfig::with_single_cert(vec![certificate.clone()], private.into());
    let server = server.unwrap();
    let (sender, address) = channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let here = (Ipv4Addr::LOCALHOST, 0).into();
            let endpoint = quinn::Endpoint::server(server, here).unwrap();
            sender.send(endpoint.local_addr().unwrap()).unwrap();
            while let Some(incoming) = endpoint.accept().await {
                tokio::time::sleep(100 * MS).await;
                tokio::spawn(incoming.into_future());
            }
        });
    });
    let address = address.recv().unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = quinn::ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    let mut endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    endpoint.set_default_client_config(client);
    at_once(30 * SECOND, async {
        match endpoint.connect(address, "localhost").unwrap().await {
            Err(quinn::ConnectionError::TimedOut) => Ok(()),
            other => Err(format!("{:?}", other.err())),
        }
    })
    .await
}

async fn nats_connect() -> String {
    let url = format!("nats://127.0.0.1:{}", peers::nats());
    at_once(5 * SECOND, async {
        match async_nats::connect(url).await {
            Err(error) => says(&error, &["timed out", "timeout"]),
            Ok(_) => Err("connects".to_owned()),
        }
    })
    .await
}

async fn nats_request() -> String {
    let url = format!("nats://127.0.0.1:{}", peers::nats());
    tokio::time::resume();
    let client = async_nats::connect(url).await.unwrap();
    tokio::time::pause();
    at_once(10 * SECOND, async {
        match client.request("subject", "question".into()).await {
            Err(error) => says(&error, &["timed out", "timeout"]),
            Ok(_) => Err("answers".to_owned()),
        }
    })
    .await
}

async fn hickory() -> String {
    use hickory_resolver::Resolver;
    use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
    use hickory_resolver::net::runtime::TokioRuntimeProvider;

    let mut connection = ConnectionConfig::udp();
    connection.port = peers::dns();
    let server = NameServerConfig::new(Ipv4Addr::LOCALHOST.into(), true, vec![connection]);
    let config = ResolverConfig::from_parts(None, vec![], vec![server]);
    let resolver = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
    let resolver = resolver.build().unwrap();
    at_once(5 * SECOND, async {
        match resolver.lookup_ip("name.example.").await {
            Err(error) => says(&error, &["timed out", "timeout"]),
            Ok(_) => Err("answers".to_owned()),
        }
    })
    .await
}

async fn tonic() -> String {
    use tower::{Service, ServiceExt};

    let uri = format!("http://127.0.0.1:{}/", peers::grpc());
    let endpoint = tonic::transport::Endpoint::from_shared(uri)
        .unwrap()
        .timeout(MINUTE);
    let mut channel = endpoint.connect_lazy();
    let call = http::Request::post("/a.B/C")
        .body(tonic::body::Body::empty())
        .unwrap();
    at_once(MINUTE, async {
        match channel.ready().await.unwrap().call(call).await {
            Err(error) => says(&error, &["timeout expired"]),
            Ok(answer) => Err(format!("{answer:?}")),
        }
    })
    .await
}
