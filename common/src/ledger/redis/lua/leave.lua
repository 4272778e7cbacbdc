-- Notes that a node leaves in order.
-- ARGV: node id
local job, nodes, heard = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', job) == 0 then return false end
local packed = redis.call('HGET', nodes, ARGV[1])
if packed then
  local node = cmsgpack.unpack(packed)
  node[5] = true
  redis.call('HSET', nodes, ARGV[1], cmsgpack.pack(node))
end
redis.call('ZREM', heard, ARGV[1])
return 1
