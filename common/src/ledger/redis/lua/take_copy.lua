-- take_copy
-- Takes a copy that is offered. Returns what is needed to run it; {} where none is offered, another worker has it, or the
-- mini-batch has its outcome.
-- ARGV: index, worker
local job, ended, copies, open_copies = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if redis.call('EXISTS', job) == 0 then return false end
if redis.call('GETBIT', ended, ARGV[1]) == 1 then return {} end
local packed = redis.call('HGET', copies, ARGV[1])
if not packed or packed == '' then return {} end
local copy = cmsgpack.unpack(packed)
if copy[2] and copy[2] ~= ARGV[2] then return {} end
if not copy[2] then
  redis.call('HSET', copies, ARGV[1], cmsgpack.pack({ copy[1], ARGV[2] }))
  redis.call('HDEL', open_copies, ARGV[1])
end
return { copy[1] }
