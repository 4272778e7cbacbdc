-- Notes that the offers of a target are filled.
-- ARGV: for how long, milliseconds
redis.call('SET', KEYS[1], 'filled', 'PX', ARGV[1])
return 1
