-- Calls every command that the other scripts call, on two keys of nobody, so that a right that is missing shows when
-- a program connects and not in the middle of a job.
local hash, list = KEYS[1], KEYS[2]
redis.call('HSET', hash, 'a', 1, 'b', 2)
redis.call('HINCRBY', hash, 'a', 1)
redis.call('HGET', hash, 'a')
redis.call('HMGET', hash, 'a')
redis.call('HGETALL', hash)
redis.call('HEXISTS', hash, 'a')
redis.call('HDEL', hash, 'b')
redis.call('EXISTS', hash)
redis.call('UNLINK', hash)
redis.call('BITFIELD', hash, 'SET', 'u1', 0, 1)
redis.call('GETBIT', hash, 0)
redis.call('RPUSH', list, 'a')
redis.call('LLEN', list)
redis.call('LINDEX', list, 0)
redis.call('LRANGE', list, 0, -1)
redis.call('UNLINK', hash, list)
redis.call('TIME')
return 1
