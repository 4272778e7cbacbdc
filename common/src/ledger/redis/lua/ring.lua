-- Rings.
-- ARGV: the channel of the bell
redis.call('PUBLISH', ARGV[1], '')
return 1
