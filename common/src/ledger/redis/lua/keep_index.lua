-- Takes or renews the duty to keep the index. Returns 1; 0 while another program has it.
-- ARGV: owner, time in microseconds
local index = KEYS[1]
local known = redis.call('HMGET', index, 'owner', 'until')
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
if known[1] and known[1] ~= ARGV[1] and tonumber(known[2]) > now then return 0 end
redis.call('HSET', index, 'owner', ARGV[1], 'until', now + tonumber(ARGV[2]))
return 1
