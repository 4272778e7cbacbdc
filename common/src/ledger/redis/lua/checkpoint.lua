-- Notes how far the planning has come, unless it is known to be further. Returns 1, or -1 when the lease to publish the
-- plan has changed hands.
-- ARGV: mini-batches scheduled, items in them, whether these are all (0, 1), sum of the fingerprints of their descriptors,
--   number of the caller's lease, end of the indexes of the plan where these are not dense (0 where they are)
local job, leases = KEYS[1], KEYS[2]
if redis.call('EXISTS', job) == 0 then return false end
if redis.call('HGET', leases, 'schedule:fence') ~= ARGV[5] then return -1 end
local known = redis.call('HMGET', job, 'scheduled', 'planned')
local scheduled, planned = tonumber(known[1] or '0'), tonumber(known[2] or '0')
local ahead = tonumber(ARGV[1]) - scheduled
if ahead > 0 or (ahead == 0 and tonumber(ARGV[3]) > planned) then
  redis.call('HSET', job, 'scheduled', ARGV[1], 'scheduled_items', ARGV[2], 'planned', ARGV[3], 'descriptors', ARGV[4],
    'plan_end', ARGV[6])
end
return 1
