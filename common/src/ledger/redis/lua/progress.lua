-- The counts of a job, in the order that `JobProgress` is read in, and last the number of its segments.
local job, segments = KEYS[1], KEYS[2]
if redis.call('EXISTS', job) == 0 then return false end
local counts = redis.call('HMGET', job, 'scheduled', 'scheduled_items', 'planned', 'succeeded', 'failed', 'items',
  'items_succeeded', 'descriptors')
for at, count in ipairs(counts) do counts[at] = count or '0' end
local conclusion = redis.call('HMGET', job, 'conclusion', 'reason')
return { counts, redis.call('LLEN', segments), conclusion }
