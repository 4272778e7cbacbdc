-- offer_copy
-- Offers a copy that is wanted, where no other worker does.
-- ARGV: index, worker, what a node needs to run it
local job, copies, open_copies = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', job) == 0 then return false end
if redis.call('HGET', open_copies, ARGV[1]) == '' then
  redis.call('HSET', open_copies, ARGV[1], ARGV[2])
  redis.call('HSET', copies, ARGV[1], cmsgpack.pack({ ARGV[3], false }))
end
return 1
