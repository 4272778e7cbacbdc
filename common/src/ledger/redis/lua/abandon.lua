-- Takes a noted start back.
-- ARGV: index, name of the start
local job, tries = KEYS[1], KEYS[2]
if redis.call('EXISTS', job) == 0 then return false end
local packed = redis.call('HGET', tries, ARGV[1])
local noted = packed and cmsgpack.unpack(packed)
if noted and noted[3] == ARGV[2] then
  noted[3] = false
  if #noted[1] + #noted[2] > 0 then
    redis.call('HSET', tries, ARGV[1], cmsgpack.pack(noted))
  else
    redis.call('HDEL', tries, ARGV[1])
  end
end
return 1
