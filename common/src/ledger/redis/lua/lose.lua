-- Forgets a job whose keys do not fit together, so that it is filled anew from storage. An early end that was decided
-- stays. Returns 1.
-- ARGV: time to live in seconds
local job = KEYS[1]
local known = redis.pcall('HMGET', job, 'created_by', 'run_max_try', 'max_node_losses', 'conclusion', 'reason',
  'concluded_us')
redis.call('UNLINK', unpack(KEYS))
local early = { failed = true, canceled = true }
local function number(text, default) return tonumber(text or '') and text or default end
if not known.err and known[1] and early[known[4]] then
  redis.call('HSET', job, 'created_by', known[1], 'state', 'queued', 'run_max_try', number(known[2], '1'),
    'max_node_losses', number(known[3], '1'), 'conclusion', known[4], 'reason', known[5] or '', 'concluded_us',
    number(known[6], '0'))
  redis.call('EXPIRE', job, ARGV[1])
end
return 1
