-- Subscriptions of contexts that give up their past: how far they have got is reported to the context service.
alter table delivery add column reports_floor boolean not null default false;
create index delivery_floor on delivery (id) where reports_floor;
