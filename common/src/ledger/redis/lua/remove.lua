-- Forgets a job, known or not.
redis.call('UNLINK', unpack(KEYS))
return 1
