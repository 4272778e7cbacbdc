-- Takes the offer of a run back.
-- ARGV: run
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
