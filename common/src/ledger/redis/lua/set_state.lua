-- Moves a job to another state. Returns 1; 0 when it has ended in another one; -1 when the lease to watch over it has
-- changed hands.
-- ARGV: state, number of the caller's lease
local job, leases = KEYS[1], KEYS[2]
local state = redis.call('HGET', job, 'state')
if not state and redis.call('EXISTS', job) == 1 then error('the job lacks its state') end
if not state then return false end
if redis.call('HGET', leases, 'watch:fence') ~= ARGV[2] then return -1 end
local final = { completed = true, failed = true, canceled = true }
if final[state] and state ~= ARGV[1] then return 0 end
redis.call('HSET', job, 'state', ARGV[1])
return 1
