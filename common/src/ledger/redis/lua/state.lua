-- The state of a job.
return redis.call('HGET', KEYS[1], 'state')
