#!/usr/bin/env bash
# Library: croniter 7.0.0, cronsim 2.8, APScheduler 3.11.3, and of npm croner 11.0.1, cron-parser 5.10.6
# Guess: they agree when "30 2 * * *" runs in Berlin on the day on which 2:30 is skipped, and that it
#   runs once on the day on which 2:30 comes twice.
# Seen: in spring three run at 3:00, and two at 3:30, of which APScheduler says "2:30+01:00". In
#   autumn croniter and APScheduler run twice, and the other three once.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
python_packages croniter==7.0.0 cronsim==2.8 APScheduler==3.11.3 tzdata==2025.2
node_packages croner@11.0.1 cron-parser@5.10.6
cat >program.py <<'END'
from datetime import datetime, timezone
from itertools import count
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

CRON = "30 2 * * *"
BERLIN = ZoneInfo("Europe/Berlin")


def of_apscheduler(start):
    trigger = CronTrigger.from_crontab(CRON, timezone=BERLIN)
    last, now = None, start
    while True:
        last = now = trigger.get_next_fire_time(last, now)
        yield now


def of_croniter(start):
    runs = croniter(CRON, start)
    return (runs.get_next(datetime) for _ in count())


def of_cronsim(start):
    return CronSim(CRON, start)


for season, start in (("spring", datetime(2026, 3, 28, 12)), ("autumn", datetime(2026, 10, 24, 12))):
    for library in (of_apscheduler, of_croniter, of_cronsim):
        runs = library(start.replace(tzinfo=BERLIN))
        runs = [next(runs).astimezone(timezone.utc) for _ in range(2)]
        name = library.__name__.removeprefix("of_")
        print(season, name, *(run.strftime("%dT%H:%MZ") for run in runs))
END
cat >program.mjs <<'END'
import { CronExpressionParser } from 'cron-parser';
import { Cron } from 'croner';

const CRON = '30 2 * * *';
const zone = 'Europe/Berlin';
for (const [season, start] of [['spring', '2026-03-28T11:00Z'], ['autumn', '2026-10-24T10:00Z']]) {
    const ofCroner = new Cron(CRON, { timezone: zone }).nextRuns(2, new Date(start));
    const parsed = CronExpressionParser.parse(CRON, { tz: zone, currentDate: new Date(start) });
    const ofParser = [parsed.next().toDate(), parsed.next().toDate()];
    for (const [name, runs] of [['croner', ofCroner], ['cron-parser', ofParser]]) {
        console.log(season, name, ...runs.map((run) => `${run.toISOString().slice(8, 16)}Z`));
    }
}
END
expect "$(python program.py && node program.mjs)" <<'END'
spring apscheduler 29T01:30Z 30T00:30Z
spring croniter 29T01:00Z 30T00:30Z
spring cronsim 29T01:00Z 30T00:30Z
autumn apscheduler 25T00:30Z 25T01:30Z
autumn croniter 25T00:30Z 25T01:30Z
autumn cronsim 25T00:30Z 26T01:30Z
spring croner 29T01:00Z 30T00:30Z
spring cron-parser 29T01:30Z 30T00:30Z
autumn croner 25T00:30Z 26T01:30Z
autumn cron-parser 25T00:30Z 26T01:30Z
END
