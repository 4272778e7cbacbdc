-- Forgets a job that is to be filled anew. Returns 1; 0 when another owner watches over it, or its early end is decided.
-- The first key tells whether the job is there, the last has its leases.
-- ARGV: who watches over it
local job, leases = KEYS[1], KEYS[#KEYS]
if redis.call('EXISTS', job) == 0 then return 1 end
local conclusion = redis.call('HGET', job, 'conclusion')
if conclusion and conclusion ~= 'completed' then return 0 end
local known = redis.call('HMGET', leases, 'watch:owner', 'watch:until')
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
if known[1] ~= ARGV[1] or tonumber(known[2] or '0') <= now then return 0 end
redis.call('UNLINK', unpack(KEYS))
return 1
