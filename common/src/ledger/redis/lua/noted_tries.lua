-- The names that are noted of a mini-batch: its tries that the user's code failed, and the services that gave its last try
-- back. None of one that has its outcome.
-- ARGV: index
local job, ended, tries = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', job) == 0 then return false end
local packed = redis.call('GETBIT', ended, ARGV[1]) == 0 and redis.call('HGET', tries, ARGV[1])
local noted = packed and cmsgpack.unpack(packed) or { {}, {}, false }
return { noted[1], noted[4] or {} }
