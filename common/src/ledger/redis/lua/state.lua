-- The state of a job. One that lacks it was lost in part.
local job = KEYS[1]
local state = redis.call('HGET', job, 'state')
if not state and redis.call('EXISTS', job) == 1 then error('the job lacks its state') end
return state
