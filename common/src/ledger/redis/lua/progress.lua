-- The counts of a job, in the order that `JobProgress` is read in; the number of its segments; how it is concluded, and
-- when that was decided; whether its statistics have a reader; and what keeps it from going on, why, and for how long in
-- microseconds.
-- ARGV: how long one who has read them counts as a reader, microseconds
local job, segments, statistics = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', job) == 0 then return false end
local counts = redis.call('HMGET', job, 'scheduled', 'scheduled_items', 'planned', 'succeeded', 'failed', 'items',
  'items_succeeded', 'descriptors', 'plan_end')
for at, count in ipairs(counts) do counts[at] = count or '0' end
local conclusion = redis.call('HMGET', job, 'conclusion', 'reason', 'concluded_us')
local read = tonumber(redis.call('HGET', statistics, 'read_us') or '0')
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local obstacle = redis.call('HMGET', job, 'obstacle', 'obstacle_reason', 'obstacle_us')
obstacle[3] = math.max(now - tonumber(obstacle[3] or now), 0)
return { counts, redis.call('LLEN', segments), conclusion, now - read < tonumber(ARGV[1]) and 1 or 0, obstacle }
