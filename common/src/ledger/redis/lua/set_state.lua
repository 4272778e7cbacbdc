-- Moves a job to another state. Returns 1, or 0 when it has ended in another one.
-- ARGV: state
local job = KEYS[1]
local state = redis.call('HGET', job, 'state')
if not state then return false end
local final = { completed = true, failed = true, canceled = true }
if final[state] and state ~= ARGV[1] then return 0 end
redis.call('HSET', job, 'state', ARGV[1])
return 1
