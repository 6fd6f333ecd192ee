//! Clients whose server is outside the runtime, and healthy.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::own::case;
use crate::{MINUTE, Row, SECOND, at_once, before_the_pause, peers};

pub const ROWS: &[Row] = &[
    ("reqwest", "timeout of a request", || case(reqwest())),
    ("redis", "connection timeout", || case(redis_connect())),
    ("redis", "response timeout", || case(redis_response())),
    ("rumqttc", "connection timeout", || case(rumqttc())),
    ("quinn", "idle timeout, in the handshake", || {
        case(quinn(peers::elsewhere))
    }),
    ("async-nats", "connection timeout", || case(nats_connect())),
    (
        "async-nats",
        "timeout of a request",
        || case(nats_request()),
    ),
    ("hickory-resolver", "timeout of a lookup", || {
        case(hickory(peers::dns()))
    }),
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

pub async fn reqwest() -> String {
    let url = format!("http://127.0.0.1:{}/", peers::http());
    let client = reqwest::Client::builder().timeout(MINUTE).build().unwrap();
    at_once(MINUTE, async {
        match client.get(url).send().await {
            Err(error) if error.is_timeout() => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => Err("answers".to_owned()),
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

pub async fn redis_connect() -> String {
    let client = redis_client();
    at_once(MINUTE, async {
        match client
            .get_multiplexed_async_connection_with_config(&redis_config())
            .await
        {
            Err(error) if error.is_timeout() => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => Err("connects".to_owned()),
        }
    })
    .await
}

pub async fn redis_response() -> String {
    let client = redis_client();
    let config = redis_config();
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    let mut connection = before_the_pause(connection).await.unwrap();
    at_once(MINUTE, async {
        match redis::cmd("PING")
            .query_async::<String>(&mut connection)
            .await
        {
            Err(error) if error.is_timeout() => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => Err("answers".to_owned()),
        }
    })
    .await
}

pub async fn rumqttc() -> String {
    let options = rumqttc::MqttOptions::new("client", "127.0.0.1", peers::mqtt());
    let (_client, mut events) = rumqttc::AsyncClient::new(options, 10);
    at_once(5 * SECOND, async {
        match events.poll().await {
            Err(rumqttc::ConnectionError::NetworkTimeout) => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => Err("connects".to_owned()),
        }
    })
    .await
}

pub async fn quinn(serve: fn(quinn::ServerConfig) -> SocketAddr) -> String {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = key.cert.der().clone();
    let private = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let server = quinn::ServerConfig::with_single_cert(vec![certificate.clone()], private.into());
    let address = serve(server.unwrap());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = quinn::ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    let mut endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    endpoint.set_default_client_config(client);
    at_once(30 * SECOND, async {
        match endpoint.connect(address, "localhost").unwrap().await {
            Err(quinn::ConnectionError::TimedOut) => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => Err("connects".to_owned()),
        }
    })
    .await
}

pub async fn nats_connect() -> String {
    let url = format!("nats://127.0.0.1:{}", peers::nats());
    at_once(5 * SECOND, async {
        match async_nats::connect(url).await {
            Err(error) => says(&error, &["timed out", "timeout"]),
            Ok(_) => Err("connects".to_owned()),
        }
    })
    .await
}

pub async fn nats_request() -> String {
    let url = format!("nats://127.0.0.1:{}", peers::nats());
    let client = before_the_pause(async_nats::connect(url)).await.unwrap();
    at_once(10 * SECOND, async {
        match client.request("subject", "question".into()).await {
            Err(error) => says(&error, &["timed out", "timeout"]),
            Ok(_) => Err("answers".to_owned()),
        }
    })
    .await
}

pub async fn hickory(port: u16) -> String {
    use hickory_resolver::Resolver;
    use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
    use hickory_resolver::net::runtime::TokioRuntimeProvider;

    let mut connection = ConnectionConfig::udp();
    connection.port = port;
    let server = NameServerConfig::new(Ipv4Addr::LOCALHOST.into(), true, vec![connection]);
    let config = ResolverConfig::from_parts(None, vec![], vec![server]);
    let resolver = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
    let resolver = resolver.build().unwrap();
    at_once(5 * SECOND, async {
        match resolver.lookup_ip("name.example.").await {
            Err(error) if says(&error, &["no records found"]).is_ok() => Err("answers".to_owned()),
            Err(error) => says(&error, &["timed out", "timeout"]),
            Ok(_) => Err("has records".to_owned()),
        }
    })
    .await
}

async fn tonic() -> String {
    let uri = format!("http://127.0.0.1:{}/", peers::grpc());
    let endpoint = tonic::transport::Endpoint::from_shared(uri).unwrap();
    call(endpoint.timeout(MINUTE).connect_lazy()).await
}

/// A call whose endpoint has a timeout of a minute.
pub async fn call(mut channel: tonic::transport::Channel) -> String {
    use tower::{Service, ServiceExt};

    let call = http::Request::post("/a.B/C")
        .body(tonic::body::Body::empty())
        .unwrap();
    at_once(MINUTE, async {
        match channel.ready().await.unwrap().call(call).await {
            Err(error) => says(&error, &["timeout expired"]),
            Ok(_) => Err("answers".to_owned()),
        }
    })
    .await
}
