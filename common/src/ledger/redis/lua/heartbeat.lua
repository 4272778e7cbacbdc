-- Notes what a node says of itself. Returns the state of the job and how it is concluded (nil when it is not), or {}
-- when the node is not known.
-- ARGV: node id, worker, report
local job, nodes, heard = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', job) == 0 then return false end
local packed = redis.call('HGET', nodes, ARGV[1])
local node = packed and cmsgpack.unpack(packed)
if not node or node[1] ~= ARGV[2] then return {} end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
node[3], node[4] = ARGV[3], now
redis.call('HSET', nodes, ARGV[1], cmsgpack.pack(node))
if not node[5] then redis.call('ZADD', heard, now, ARGV[1]) end
return redis.call('HMGET', job, 'state', 'conclusion')
