//! The front of an MQTT 3.1.1 broker: CONNECT with a keep-alive, and the rule of 1.5 times.
//!
//! The standard, in section 3.1.2.10: the server must close a client from which it has received no
//! packet for one and a half times the keep-alive. What the server sends does not count. So the
//! deadline is reset where packets are read, and nowhere else.
//!
//! A `DeadlineMap` has one deadline for each client identifier. A client that connects once more
//! replaces its older deadline, and so ends its older connection, as section 3.1.4 wants it.
//!
//! Every client that has subscribed to anything gets the topic `ticks`, so that there are clients
//! that only receive. There is no other routing.
//!
//! A client that never reads is closed when a write takes too long. If its keep-alive is shorter,
//! it may be closed as silent before.
//!
//! Invariant: the deadline runs beside all that reads and writes, and each write is bounded in
//! time. So no client stays by blocking either of them, also none without a keep-alive.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use rumqttc::{
    Codec, ConnAck, Connect, ConnectReturnCode, Packet, Protocol, PubAck, Publish, QoS, SubAck,
    SubscribeReasonCode, UnsubAck,
};
use tickwheel::{DeadlineMap, Duration, MissedTickBehavior, ResetHandle, Timer};
use tickwheel_integrations::{Reason, parse_address, parse_period, run, serve};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::codec::Framed;

/// Closes MQTT clients that send nothing for 1.5 times their keep-alive.
#[derive(Debug, Parser)]
#[command(allow_negative_numbers = true)]
struct Options {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:1883", value_parser = parse_address)]
    listen: String,
    /// A client must send its CONNECT within this time.
    #[arg(long, default_value = "10s", value_parser = parse_period)]
    connect_within: Duration,
    /// A client must take a packet within this time.
    #[arg(long, default_value = "10s", value_parser = parse_period)]
    write_within: Duration,
    /// How often subscribed clients get something.
    #[arg(long, default_value = "1s", value_parser = parse_period)]
    publish_every: Duration,
}

const LARGEST_PACKET: usize = 64 * 1024;

/// At most this many answers wait to be written. Then no more packets are read.
const MOST_ANSWERS: usize = 16;

type Transport = Framed<TcpStream, Codec>;

fn main() -> ExitCode {
    let options = Arc::new(Options::parse());
    run(async move {
        let sessions = DeadlineMap::new(&Timer::current());
        serve(options.listen.clone(), move |stream, timer| {
            attend(stream, options.clone(), timer, sessions.clone())
        })
        .await
    })
}

async fn attend(
    stream: TcpStream,
    options: Arc<Options>,
    timer: Timer,
    sessions: DeadlineMap<String>,
) -> Result<String, Reason> {
    let codec = Codec {
        max_incoming_size: LARGEST_PACKET,
        max_outgoing_size: LARGEST_PACKET,
    };
    let mut transport = Framed::new(stream, codec);
    let handshake = timer.timeout(options.connect_within, accept(&mut transport));
    let connect = handshake.await.map_err(|_| "no CONNECT in time")??;
    let silent_after = match connect.keep_alive {
        0 => Duration::MAX,
        seconds => Duration::from_secs(seconds.into()) * 3 / 2,
    };
    let keep_alive = sessions.insert(connect.client_id, silent_after);
    let keep_alive = keep_alive.expect("the map has no limit and is never closed");
    let heard = keep_alive.handle();
    let (sink, stream) = transport.split();
    let (answers, to_send) = mpsc::channel(MOST_ANSWERS);
    // Only now. So the deadline of a client that connects after this answer is the newer one.
    let accepted = ConnAck::new(ConnectReturnCode::Success, false);
    let first = answers.try_send(Packet::ConnAck(accepted));
    first.expect("there is room");
    tokio::select! {
        ended = keep_alive => return Ok(match ended {
            Ok(()) => format!("silent for {silent_after:?}"),
            Err(_) => "taken over by a newer connection".to_owned(),
        }),
        ended = read(stream, heard, answers) => ended?,
        ended = write(sink, to_send, &options, &timer) => ended?,
    }
    Ok("by the client".to_owned())
}

/// Waits for CONNECT, and answers one that is refused.
async fn accept(transport: &mut Transport) -> Result<Connect, Reason> {
    let connect = match transport.next().await.transpose()? {
        None => return Err("by the client".into()),
        Some(Packet::Connect(connect)) => connect,
        Some(_) => return Err("the first packet is not CONNECT".into()),
    };
    let code = match connect.protocol {
        Protocol::V4 if connect.client_id.is_empty() => ConnectReturnCode::BadClientId,
        Protocol::V4 => return Ok(connect),
        Protocol::V5 => ConnectReturnCode::RefusedProtocolVersion,
    };
    let refusal = ConnAck::new(code, false);
    transport.send(Packet::ConnAck(refusal)).await?;
    Err(format!("refused: {code:?}").into())
}

/// Each packet that comes in, of whatever kind, pushes the deadline back.
async fn read(
    mut stream: SplitStream<Transport>,
    heard: ResetHandle,
    answers: mpsc::Sender<Packet>,
) -> Result<(), Reason> {
    while let Some(packet) = stream.next().await.transpose()? {
        heard.reset();
        let answer = match packet {
            Packet::PingReq => Packet::PingResp,
            Packet::Subscribe(subscribe) => {
                let granted = SubscribeReasonCode::Success(QoS::AtMostOnce);
                let codes = vec![granted; subscribe.filters.len()];
                Packet::SubAck(SubAck::new(subscribe.pkid, codes))
            }
            Packet::Unsubscribe(unsubscribe) => Packet::UnsubAck(UnsubAck::new(unsubscribe.pkid)),
            Packet::Publish(publish) if publish.qos == QoS::AtLeastOnce => {
                Packet::PubAck(PubAck::new(publish.pkid))
            }
            Packet::Connect(_) => return Err("a second CONNECT".into()),
            Packet::Disconnect => return Ok(()),
            _ => continue,
        };
        if answers.send(answer).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn write(
    mut sink: SplitSink<Transport, Packet>,
    mut to_send: mpsc::Receiver<Packet>,
    options: &Options,
    timer: &Timer,
) -> Result<(), Reason> {
    let mut ticks = timer.interval(options.publish_every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_subscribed = false;
    loop {
        let packet = tokio::select! {
            answer = to_send.recv() => match answer {
                None => return Ok(()),
                Some(answer) => answer,
            },
            _ = ticks.tick(), if is_subscribed => {
                Packet::Publish(Publish::new("ticks", QoS::AtMostOnce, "tick"))
            }
        };
        is_subscribed |= matches!(packet, Packet::SubAck(_));
        let sent = timer.timeout(options.write_within, sink.send(packet));
        sent.await.map_err(|_| "the client does not read")??;
    }
}
