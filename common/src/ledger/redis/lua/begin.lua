-- Notes that a mini-batch is about to run; a start noted before counts as a lost node. Returns what `record_failure`
-- returns.
-- ARGV: index, name of the start
local job, ended, tries = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', job) == 0 then return false end
if redis.call('GETBIT', ended, ARGV[1]) == 1 then return {} end

local packed = redis.call('HGET', tries, ARGV[1])
local noted = packed and cmsgpack.unpack(packed) or { {}, {}, false }
local lost, before = noted[2], noted[3]
local is_lost, before_is_lost = false, false
for _, id in ipairs(lost) do
  is_lost = is_lost or id == ARGV[2]
  before_is_lost = before_is_lost or id == before
end
-- A start that is known to be lost is an old call come again: it must not replace a newer one.
if not is_lost and before ~= ARGV[2] then
  if before and not before_is_lost then lost[#lost + 1] = before end
  noted[3] = ARGV[2]
  redis.call('HSET', tries, ARGV[1], cmsgpack.pack(noted))
end
local limits = redis.call('HMGET', job, 'run_max_try', 'max_node_losses')
return { #noted[1], #lost, limits[1] or '', limits[2] or '' }
