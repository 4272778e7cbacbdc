-- The workers that were asked to leave, and why.
return redis.call('HGETALL', KEYS[1])
