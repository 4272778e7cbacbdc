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
-- Keys of a job that are of another type tell nothing of it; the other jobs do not wait for it.
local function of_type(answer)
  if not answer.err then return answer end
  if not string.find(answer.err, 'WRONGTYPE', 1, true) then error(answer.err) end
  return {}
end
local fields = redis.call('HGETALL', offers)
for at = 1, #fields, 2 do
  local of_job = 'prs:{' .. fields[at] .. '}:'
  local heard = redis.pcall('ZCOUNT', of_job .. 'heard', quiet, '+inf')
  if type(heard) == 'table' then heard = of_type(heard)[1] end
  local known = of_type(redis.pcall('HMGET', of_job .. 'job', 'state', 'conclusion', 'moved_us'))
  local watch = of_type(redis.pcall('HMGET', of_job .. 'leases', 'watch:owner', 'watch:until'))
  local moved = tonumber(known[3] or '')
  found[#found + 1] = {
    fields[at + 1],
    heard or 0,
    known[1] or false,
    known[2] and 1 or 0,
    watch[1] and (tonumber(watch[2]) or 0) > now and 1 or 0,
    moved and math.max(now - moved, 0) or false,
  }
end
return { redis.call('EXISTS', filled), redis.call('HEXISTS', draining, ARGV[7]), found }
