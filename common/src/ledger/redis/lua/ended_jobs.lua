-- How many jobs ended, as flat pairs of 'state complete target' and the count.
return redis.call('HGETALL', KEYS[1])
