-- Enters a job. Returns 1; 0 when there is one already, unless this very call has made it.
-- What is left of a job whose first key was lost (evicted, deleted by hand) must not become part of a new one.
-- ARGV: name of this call, run_max_try, max_node_losses, time to live in seconds
local job = KEYS[1]
local made_by = redis.call('HGET', job, 'created_by')
if made_by then
  return made_by == ARGV[1] and 1 or 0
end
redis.call('UNLINK', unpack(KEYS))
redis.call('HSET', job, 'created_by', ARGV[1], 'state', 'queued', 'run_max_try', ARGV[2], 'max_node_losses', ARGV[3])
redis.call('EXPIRE', job, ARGV[4])
return 1
