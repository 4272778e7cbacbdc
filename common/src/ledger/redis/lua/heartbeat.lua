-- Notes what a node says of itself. Returns the state of the job, how it is concluded (nil when it is not), whether the
-- worker was asked to leave (0, 1), how many nodes are live, and whether a mini-batch succeeded (0, 1); nils when the node
-- is not known.
-- ARGV: node id, worker, report, how long a live node may be quiet in microseconds
local job, nodes, heard, draining = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if redis.call('EXISTS', job) == 0 then return false end
local packed = redis.call('HGET', nodes, ARGV[1])
local node = packed and cmsgpack.unpack(packed)
if not node or node[1] ~= ARGV[2] then return { false, false, 0, 0, 0 } end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
node[3], node[4] = ARGV[3], now
redis.call('HSET', nodes, ARGV[1], cmsgpack.pack(node))
if not node[5] then redis.call('ZADD', heard, now, ARGV[1]) end
local known = redis.call('HMGET', job, 'state', 'conclusion', 'succeeded')
if not known[1] then error('the job lacks its state') end
local leaves = redis.call('HEXISTS', draining, cmsgpack.unpack(node[2]).instance or '')
local live = redis.call('ZCOUNT', heard, now - tonumber(ARGV[4]), '+inf')
return { known[1], known[2], leaves, live, tonumber(known[3] or '0') > 0 and 1 or 0 }
