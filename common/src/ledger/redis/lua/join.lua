-- Enters a node, or enters it again. Returns its id, or -1 when no seat is free.
-- ARGV: worker, what it says of itself and of its work, the id it wishes ('' for none), seats ('' for any number), how long
-- a node may be quiet in microseconds
-- A job that had no node moves again with the first.
local job, nodes, workers, heard = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if redis.call('EXISTS', job) == 0 then return false end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local node_id = redis.call('HGET', workers, ARGV[1])
local taken = redis.call('ZCOUNT', heard, now - tonumber(ARGV[6]), '+inf')
if not node_id and ARGV[5] ~= '' and taken >= tonumber(ARGV[5]) then return -1 end
if taken == 0 then redis.call('HSET', job, 'moved_us', string.format('%.0f', now)) end
if not node_id and ARGV[4] ~= '' and redis.call('HEXISTS', nodes, ARGV[4]) == 0 then
  node_id = ARGV[4]
end
if not node_id then
  node_id = 0
  while redis.call('HEXISTS', nodes, node_id) == 1 do node_id = node_id + 1 end
end
redis.call('HSET', nodes, node_id, cmsgpack.pack({ ARGV[1], ARGV[2], ARGV[3], now, false }))
redis.call('HSET', workers, ARGV[1], node_id)
redis.call('ZADD', heard, now, node_id)
return tonumber(node_id) or error('a worker has an id that is none')
