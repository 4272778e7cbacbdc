-- The offers of a target: whether they were compared with storage, whether the worker that looks was asked to leave, and for
-- each the offer, the nodes that were heard of
-- lately, the state (nil where the ledger lost the job), whether it is concluded and whether it is watched (0, 1), and how many
-- microseconds ago an outcome came last, or a node where there was none (nil before that).
-- The keys of the jobs follow from their names: 'prs:{' .. run .. '}:' and the kind.
-- ARGV: whether a worker looks (0, 1), which one, how long a node may be quiet and how long an idle worker is remembered, both
-- in microseconds, time to live in seconds, the name of the target, the name of the worker
local offers, idle, filled, targets, draining = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
if ARGV[1] == '1' then
  redis.call('ZADD', idle, now, ARGV[2])
  redis.call('ZREMRANGEBYSCORE', idle, '-inf', now - tonumber(ARGV[4]))
  redis.call('EXPIRE', idle, ARGV[5])
  redis.call('ZADD', targets, now, ARGV[6])
  redis.call('ZREMRANGEBYSCORE', targets, '-inf', now - tonumber(ARGV[5]) * 1000000)
  redis.call('EXPIRE', targets, ARGV[5])
end
local quiet = now - tonumber(ARGV[3])
local found = {}
local fields = redis.call('HGETALL', offers)
for at = 1, #fields, 2 do
  local of_job = 'prs:{' .. fields[at] .. '}:'
  local known = redis.call('HMGET', of_job .. 'job', 'state', 'conclusion', 'moved_us')
  local watch = redis.call('HMGET', of_job .. 'leases', 'watch:owner', 'watch:until')
  found[#found + 1] = {
    fields[at + 1],
    redis.call('ZCOUNT', of_job .. 'heard', quiet, '+inf'),
    known[1],
    known[2] and 1 or 0,
    watch[1] and tonumber(watch[2]) > now and 1 or 0,
    known[3] and math.max(now - tonumber(known[3]), 0),
  }
end
return { redis.call('EXISTS', filled), redis.call('HEXISTS', draining, ARGV[7]), found }
