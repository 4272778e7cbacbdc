-- Notes which storage the ledger belongs to, unless that is noted. Returns which.
-- ARGV: identity of a storage
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])
