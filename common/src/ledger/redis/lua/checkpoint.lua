-- Notes how far the planning has come, unless it is known to be further.
-- ARGV: mini-batches scheduled, items in them, whether these are all (0, 1), sum of the fingerprints of their descriptors
local job = KEYS[1]
if redis.call('EXISTS', job) == 0 then return false end
local known = redis.call('HMGET', job, 'scheduled', 'planned')
local scheduled, planned = tonumber(known[1] or '0'), tonumber(known[2] or '0')
local ahead = tonumber(ARGV[1]) - scheduled
if ahead > 0 or (ahead == 0 and tonumber(ARGV[3]) > planned) then
  redis.call('HSET', job, 'scheduled', ARGV[1], 'scheduled_items', ARGV[2], 'planned', ARGV[3], 'descriptors', ARGV[4])
end
return 1
