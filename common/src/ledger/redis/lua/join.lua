-- Enters a node, or enters it again. Returns its id.
-- ARGV: worker, what it says of itself, the id it wishes ('' for none)
local job, nodes, workers = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', job) == 0 then return false end
local node_id = redis.call('HGET', workers, ARGV[1])
if not node_id and ARGV[3] ~= '' and redis.call('HEXISTS', nodes, ARGV[3]) == 0 then
  node_id = ARGV[3]
end
if not node_id then
  node_id = 0
  while redis.call('HEXISTS', nodes, node_id) == 1 do node_id = node_id + 1 end
end
local now = redis.call('TIME')
local heard = tonumber(now[1]) * 1000000 + tonumber(now[2])
redis.call('HSET', nodes, node_id, cmsgpack.pack({ ARGV[1], ARGV[2], '', heard, false }))
redis.call('HSET', workers, ARGV[1], node_id)
return tonumber(node_id)
